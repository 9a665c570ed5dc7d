#include "common/base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_MAX = 2048, SEEDS = 400 };

/* Where secrets stand: %s is the secret. The words "before" and "after" are nobody's secret. */
static const char *const places[] = {
    "before Authorization: Bearer %s\nafter",
    "before Authorization: Basic %s\nafter",
    "before authorization: %s\nafter",
    "before Proxy-Authorization: Digest username=\"u\", response=%s\nafter",
    "before curl -H 'Authorization: Token %s'\nafter",
    "before Cookie: session=%s; theme=%s\nafter",
    "before Set-Cookie: sid=%s; Path=/; HttpOnly\nafter",
    "before --password %s after",
    "before --db-password=%s after",
    "before [\"--api-key\", \"%s\"] after",
    "before {\"password\": \"%s\"} after",
    "before {\"accessToken\":\"%s\",\"after\":1}",
    "before {'client_secret' => '%s'} after",
    "before {\"message\": \"said \\\"password\\\": \\\"%s\\\"\"} after",
    "before {\"message\": \"PASSWORD=%s\\nafter\"}",
    "before DB_PASSWORD=%s after",
    "before S3_SECRET_ACCESS_KEY: %s after",
    "before spring.datasource.password = %s after",
    "before host=db password='%s' dbname=after",
    "before postgres://user:%s@db:5432/after",
    "before amqp://:%s@queue/after",
    "before https://s3.example/k?X-Amz-Signature=%s&after=1",
    "before https://s3.example/k?AWSAccessKeyId=%s&after=1",
    "before https://s3.example/k?X-Amz-Security-Token=%s&after=1",
    "before <SecretAccessKey>%s</SecretAccessKey> after",
    "before <SessionToken>%s</SessionToken> after",
    "before webhook-signature: v1,%s v1,%s\nafter",
    "before x-api-key: %s after",
};

/* What secrets are made of: each place can hold these without quotes. */
static const char alphabet[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+_.~!$";

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return *seed >> 8;
}

static void make_secret(unsigned *seed, char secret[64])
{
    size_t length = 6 + next_random(seed) % 40;
    for (size_t i = 0; i < length; i++) {
        secret[i] = alphabet[next_random(seed) % (sizeof(alphabet) - 1)];
    }
    secret[length] = '\0';
}

static void fill(const char *place, const char *secret, char text[TEXT_MAX])
{
    size_t used = 0;
    for (const char *c = place; *c; c++) {
        if (c[0] == '%' && c[1] == 's') {
            used += (size_t)snprintf(text + used, TEXT_MAX - used, "%s", secret);
            c++;
        } else {
            text[used++] = *c;
        }
    }
    text[used] = '\0';
}

/* No four characters of a secret are left together, and the text around it stands. */
static void expect_hidden(const char *text, const char *secret)
{
    for (size_t i = 0; i + 4 <= strlen(secret); i++) {
        char part[5];
        (void)snprintf(part, sizeof(part), "%.4s", secret + i);
        if (strstr(text, part)) {
            fail_msg("%s shows \"%s\" of %s", text, part, secret);
        }
    }
    if (!strstr(text, "before") || !strstr(text, "after")) {
        fail_msg("too much is hidden: %s", text);
    }
}

static void test_no_place_shows_a_secret(void **state)
{
    (void)state;
    unsigned seed = 1;
    for (int i = 0; i < SEEDS; i++) {
        for (size_t p = 0; p < CV_COUNT(places); p++) {
            char secret[64], text[TEXT_MAX], twice[TEXT_MAX];
            make_secret(&seed, secret);
            fill(places[p], secret, text);
            size_t length = strlen(text);
            cv_redact(text);
            expect_hidden(text, secret);
            assert_int_equal(strlen(text), length);
            (void)snprintf(twice, sizeof(twice), "%s", text);
            cv_redact(twice);
            assert_string_equal(text, twice);
        }
    }
}

static void test_some_secrets_need_no_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r", "hbGciOi"},
        {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9"},
        {"AKIAIOSFODNN7EXAMPLE", "IOSF"},
        {"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr"},
        {"ghp_16C7e42F292c6912E7710c838347Ae178B4a", "16C7"},
        {"Bearer mF_9.B5f-4.1JqM", "mF_9"},
        {"Basic dXNlcjpwYXNzd29yZA==", "dXNl"},
        {"https://ghp4567890123456789012345@github.com/x", "ghp45"},
        {"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIGl\n-----END EC PRIVATE KEY-----", "MHcC"},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        char text[TEXT_MAX];
        (void)snprintf(text, sizeof(text), "before %s after", cases[i][0]);
        cv_redact(text);
        if (strstr(text, cases[i][1]) || !strstr(text, "before ") || !strstr(text, " after")) {
            fail_msg("%s", text);
        }
    }
}

static void test_what_is_no_secret_is_shown(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "a plain line",
        "tokens=3 of 4, max_tokens: 17",
        "lease_token=1234, attempt 2 of 4",
        "Basic authentication is refused",
        "videos/original/0f0e0d0c-0000-4000-8000-000000000001/master.mp4",
        "sha1 da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "key=videos/a.mp4 etag=\"d41d8cd98f00b204e9800998ecf8427e\"",
        "https://example.com:8080/@user/video?time=3:40",
        "postgres://cortana@db/cortana",
        "{\"video_id\":\"0f0e0d0c-0000-4000-8000-000000000001\",\"languages\":[\"eng\",\"deu\"]}",
        "the password is wrong",
        "/usr/lib/x86_64-linux-gnu/libtesseract.so.5",
    };
    for (size_t i = 0; i < CV_COUNT(texts); i++) {
        char text[TEXT_MAX];
        (void)snprintf(text, sizeof(text), "%s", texts[i]);
        cv_redact(text);
        assert_string_equal(text, texts[i]);
    }
}

static void test_some_texts_exactly(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"postgres://me:hunter2@db/x", "postgres://me:*******@db/x"},
        {"password=hunter2 host=db", "password=******* host=db"},
        {"password='it''s' host=db", "password='*****' host=db"},
        {"{\"secret\": \"a\\\"b\", \"a\": 1}", "{\"secret\": \"****\", \"a\": 1}"},
        {"{\"secret\": 42, \"a\": 1}", "{\"secret\": **, \"a\": 1}"},
        {"GET /k?X-Amz-Signature=abc&b=1", "GET /k?X-Amz-Signature=***&b=1"},
        {"signed with whsec_AbC+/9==.", "signed with whsec_********."},
        {"Authorization: Bearer eyJabc", "Authorization: Bearer ******"},
        {"--token --verbose", "--token --verbose"},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "%s", cases[i][0]);
        cv_redact(text);
        assert_string_equal(text, cases[i][1]);
    }
}

static void test_json_is_hidden_by_the_names_of_members(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"password\":\"x\",\"a\":1}", "{\"password\":\"***\",\"a\":1}"},
        {"{\"secrets\":{\"a\":[1,2]},\"b\":null}", "{\"secrets\":\"***\",\"b\":null}"},
        {"{\"token\":12345,\"auth\":true}", "{\"token\":\"***\",\"auth\":true}"},
        {"{\"argv\":[\"curl\",\"--password\",\"x\",\"y\"]}",
         "{\"argv\":[\"curl\",\"--password\",\"***\",\"y\"]}"},
        {"{\"env\":[{\"name\":\"DB_PASSWORD\",\"value\":\"x\"}]}",
         "{\"env\":[{\"name\":\"DB_PASSWORD\",\"value\":\"***\"}]}"},
        {"\n [{\"name\":\"TOKEN\",\"value\":\"y\"}]", "[{\"name\":\"TOKEN\",\"value\":\"***\"}]"},
        {"{\"headers\":{\"Authorization\":\"Bearer x\"}}",
         "{\"headers\":{\"Authorization\":\"***\"}}"},
        {"{\"url\":\"https://u:pw@h/\",\"a\":[\"password=x\"]}",
         "{\"url\":\"https://u:**@h/\",\"a\":[\"password=*\"]}"},
        {"{\"a\":\"b\\u0000password=x\"}", "{\"a\":\"***\"}"},
        {"password=x {\"a\"", "password=* {\"a\""},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        struct cv_error error;
        cv_auto_free char *shown = NULL;
        assert_int_equal(cv_redacted_text(cases[i][0], &shown, &error), 0);
        assert_string_equal(shown, cases[i][1]);
    }
}

/* Pieces of what is looked for, in any order: the text keeps its length, also as the sanitizers see it. */
static void test_any_order_of_pieces(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "password", "=",        ":",       "\"",  "'",       "\\",     "://",
        "@",        "--",       "Bearer ", "eyJ", "<token>", "<",      "\n",
        " ",        "\xc3\xa4", "AKIA",    "[",   "{",       "cookie", "PRIVATE KEY-----",
    };
    unsigned seed = 7;
    for (int i = 0; i < 20000; i++) {
        char made[512] = "";
        size_t used = 0;
        unsigned count = next_random(&seed) % 24;
        for (unsigned k = 0; k < count; k++) {
            used += (size_t)snprintf(made + used, sizeof(made) - used, "%s",
                                     pieces[next_random(&seed) % CV_COUNT(pieces)]);
        }
        cv_auto_free char *text = strdup(made); /* not a byte longer than it is */
        assert_non_null(text);
        cv_redact(text);
        assert_int_equal(strlen(text), used);
    }
}

/* A part of a header that opens with an escaped quote and closes with a bare one, the text's last character. */
static void test_nothing_behind_a_text_is_masked(void **state)
{
    (void)state;
    char text[] = "cookie: a=\\\"9\"\0behind";
    cv_redact(text);
    assert_string_equal(text + strlen(text) + 1, "behind");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_place_shows_a_secret),
        cmocka_unit_test(test_some_secrets_need_no_name),
        cmocka_unit_test(test_what_is_no_secret_is_shown),
        cmocka_unit_test(test_some_texts_exactly),
        cmocka_unit_test(test_json_is_hidden_by_the_names_of_members),
        cmocka_unit_test(test_any_order_of_pieces),
        cmocka_unit_test(test_nothing_behind_a_text_is_masked),
    };
    return cmocka_run_group_tests_name("redact", tests, NULL, NULL);
}
