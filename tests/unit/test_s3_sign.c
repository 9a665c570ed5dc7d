/* The signer against AWS's published vectors: the general suite (aws-sig-v4-test-suite: names,
 * requests and signatures are copied as data) and the examples of the S3 API reference. */
#include "common/store/s3/sign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { PAIRS_MAX = 5 };

static struct cv_error error;

struct vector {
    const char *name;
    const char *method;
    const char *path;
    const char *query[PAIRS_MAX][2];
    const char *headers[PAIRS_MAX][2]; /* besides host and x-amz-date */
    const char *payload_hash;
    const char *signed_headers;
    const char *signature;
};

#define UNRESERVED "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static const struct vector general[] = {
    {"get-vanilla",
     "GET",
     "/",
     {{0}},
     {{0}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-utf8",
     "GET",
     "/\xe1\x88\xb4",
     {{0}},
     {{0}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date",
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"get-unreserved",
     "GET",
     "/" UNRESERVED,
     {{0}},
     {{0}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date",
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {"get-space-unnormalized",
     "GET",
     "/example space/",
     {{0}},
     {{0}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date",
     "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
    {"get-slashes-unnormalized",
     "GET",
     "//example//",
     {{0}},
     {{0}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date",
     "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5"},
    {"get-slash-dot-slash-unnormalized",
     "GET",
     "/./",
     {{0}},
     {{0}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date",
     "68714168e6557f8f2de0ef956fc24dc2593a4bd2961f8df51898d8a134695145"},
    {"get-vanilla-query-order-key-case",
     "GET",
     "/",
     {{"Param2", "value2"}, {"Param1", "value1"}},
     {{0}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-vanilla-query-order-encoded",
     "GET",
     "/",
     {{"Param-3", "Value3"}, {"Param", "Value2"}, {"\xe1\x88\xb4", "Value1"}},
     {{0}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date",
     "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
    {"get-vanilla-query-unreserved",
     "GET",
     "/",
     {{UNRESERVED, UNRESERVED}},
     {{0}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date",
     "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
    {"get-vanilla-utf8-query",
     "GET",
     "/",
     {{"\xe1\x88\xb4", "bar"}},
     {{0}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date",
     "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
    {"get-header-value-trim",
     "GET",
     "/",
     {{0}},
     {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}},
     CV_S3_EMPTY_HASH,
     "host;my-header1;my-header2;x-amz-date",
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"get-vanilla-with-session-token",
     "GET",
     "/",
     {{0}},
     {{"x-amz-security-token", "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-date;x-amz-security-token",
     "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
    {"post-x-www-form-urlencoded",
     "POST",
     "/",
     {{0}},
     {{"content-type", "application/x-www-form-urlencoded"}},
     "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
     "content-type;host;x-amz-date",
     "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
};

/* Amazon S3 API reference, "Examples: Signature Calculations". */
static const struct vector s3[] = {
    {"get object",
     "GET",
     "/test.txt",
     {{0}},
     {{"range", "bytes=0-9"}, {"x-amz-content-sha256", CV_S3_EMPTY_HASH}},
     CV_S3_EMPTY_HASH,
     "host;range;x-amz-content-sha256;x-amz-date",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"put object",
     "PUT",
     "/test$file.text",
     {{0}},
     {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
      {"x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
      {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
     "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
     "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"get bucket lifecycle",
     "GET",
     "/",
     {{"lifecycle", ""}},
     {{"x-amz-content-sha256", CV_S3_EMPTY_HASH}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-content-sha256;x-amz-date",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"list objects",
     "GET",
     "/",
     {{"prefix", "J"}, {"max-keys", "2"}},
     {{"x-amz-content-sha256", CV_S3_EMPTY_HASH}},
     CV_S3_EMPTY_HASH,
     "host;x-amz-content-sha256;x-amz-date",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

static void fill(const struct vector *vector, const char *host, const char *date,
                 struct cv_s3_pairs *query, struct cv_s3_pairs *headers)
{
    for (size_t i = 0; i < PAIRS_MAX && vector->query[i][0]; i++) {
        cv_s3_pairs_add(query, vector->query[i][0], vector->query[i][1]);
    }
    cv_s3_pairs_add(headers, "x-amz-date", date);
    for (size_t i = 0; i < PAIRS_MAX && vector->headers[i][0]; i++) {
        cv_s3_pairs_add(headers, vector->headers[i][0], vector->headers[i][1]);
    }
    cv_s3_pairs_add(headers, "host", host);
}

static void check(const struct vector *vector, const struct cv_s3_signing *signing,
                  const char *host)
{
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs query = {0};
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs headers = {0};
    char date[CV_S3_DATE_SIZE];
    cv_s3_format_date(signing->time_s, date);
    fill(vector, host, date, &query, &headers);
    const struct cv_s3_message message = {
        .method = vector->method,
        .path = vector->path,
        .query = &query,
        .headers = &headers,
        .payload_hash = vector->payload_hash,
    };
    cv_auto_free char *got = NULL;
    cv_auto_free char *expected = NULL;
    assert_int_equal(cv_s3_sign(signing, &message, &got, &error), 0);
    assert_int_equal(cv_format(&expected, &error,
                               "AWS4-HMAC-SHA256 Credential=%s/%.8s/us-east-1/%s/aws4_request, "
                               "SignedHeaders=%s, Signature=%s",
                               signing->access_key, date, signing->service, vector->signed_headers,
                               vector->signature),
                     0);
    if (strcmp(got, expected) != 0) {
        fail_msg("%s:\n%s\n%s", vector->name, got, expected);
    }
}

static void test_general_vectors(void **state)
{
    (void)state;
    const struct cv_s3_signing signing = {
        .access_key = "AKIDEXAMPLE",
        .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        .region = "us-east-1",
        .service = "service",
        .time_s = 1440938160, /* 2015-08-30 12:36:00 UTC */
    };
    for (size_t i = 0; i < CV_COUNT(general); i++) {
        check(&general[i], &signing, "example.amazonaws.com");
    }
}

static const struct cv_s3_signing s3_signing = {
    .access_key = "AKIAIOSFODNN7EXAMPLE",
    .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    .region = "us-east-1",
    .service = "s3",
    .time_s = 1369353600, /* 2013-05-24 */
};

static void test_s3_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < CV_COUNT(s3); i++) {
        check(&s3[i], &s3_signing, "examplebucket.s3.amazonaws.com");
    }
}

static void test_s3_presigned_url(void **state)
{
    (void)state;
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs headers = {0};
    cv_s3_pairs_add(&headers, "host", "examplebucket.s3.amazonaws.com");
    const struct cv_s3_message message = {
        .method = "GET",
        .path = "/test.txt",
        .headers = &headers,
        .payload_hash = CV_S3_UNSIGNED,
    };
    cv_auto_free char *query = NULL;
    assert_int_equal(cv_s3_presign(&s3_signing, &message, 86400, &query, &error), 0);
    assert_string_equal(
        query, "X-Amz-Algorithm=AWS4-HMAC-SHA256"
               "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
               "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
               "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
}

/* General suite, get-vanilla-with-session-token, the form in the query. */
static void test_token_in_a_url(void **state)
{
    (void)state;
    const struct cv_s3_signing signing = {
        .access_key = "AKIDEXAMPLE",
        .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        .session_token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267",
        .region = "us-east-1",
        .service = "service",
        .time_s = 1440938160,
    };
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs headers = {0};
    cv_s3_pairs_add(&headers, "host", "example.amazonaws.com");
    const struct cv_s3_message message = {
        .method = "GET", .path = "/", .headers = &headers, .payload_hash = CV_S3_EMPTY_HASH};
    cv_auto_free char *query = NULL;
    assert_int_equal(cv_s3_presign(&signing, &message, 3600, &query, &error), 0);
    assert_non_null(strstr(query,
                           "&X-Amz-Security-Token="
                           "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267&"));
    assert_non_null(strstr(
        query,
        "&X-Amz-Signature=7ff2b50b376cb4d151970630573d6291dc128cc5c2a12ffb237f73cc53f67b6c"));
}

static void test_encoding(void **state)
{
    (void)state;
    static const struct {
        const char *text, *with_slash, *without;
    } cases[] = {
        {"", "", ""},
        {"a/b c+%", "a/b%20c%2B%25", "a%2Fb%20c%2B%25"},
        {"'()*!~\x01\xff", "%27%28%29%2A%21~%01%FF", "%27%28%29%2A%21~%01%FF"},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        for (int keep = 0; keep < 2; keep++) {
            cv_auto(cv_buffer_deinit) struct cv_buffer buffer = CV_BUFFER_INIT;
            cv_buffer_text(&buffer, "");
            cv_percent_encode(&buffer, cases[i].text, keep);
            assert_string_equal(buffer.data, keep ? cases[i].with_slash : cases[i].without);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_general_vectors),  cmocka_unit_test(test_s3_vectors),
        cmocka_unit_test(test_s3_presigned_url), cmocka_unit_test(test_token_in_a_url),
        cmocka_unit_test(test_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
