/* Requests to be signed: a path, names and values of a query and of headers, parted by zero bytes. What is
 * sent must say the same as what came in: decoding the query gives its pairs, in order. */
#include "common/store/s3/sign.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 64 };

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Takes the percent signs out of `text` up to `length`, strictly. */
static size_t decode(const char *text, size_t length, char *decoded)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '%') {
            decoded[count++] = text[i];
            continue;
        }
        if (i + 2 >= length || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) {
            abort();
        }
        decoded[count++] = (char)(hex(text[i + 1]) << 4 | hex(text[i + 2]));
        i += 2;
    }
    decoded[count] = '\0';
    return count;
}

static bool has_pair(const struct cv_s3_pairs *pairs, const char *name, const char *value)
{
    for (size_t i = 0; i < pairs->count; i++) {
        if (strcmp(pairs->items[i].name, name) == 0 && strcmp(pairs->items[i].value, value) == 0) {
            return true;
        }
    }
    return false;
}

static void check_query(const struct cv_s3_pairs *query)
{
    struct cv_error error;
    cv_auto_free char *text = NULL;
    if (cv_s3_query_text(query, &text, &error)) {
        abort();
    }
    cv_auto_free char *name = malloc(strlen(text) + 1);
    cv_auto_free char *value = malloc(strlen(text) + 1);
    size_t count = 0;
    for (const char *at = text; name && value && *at; count++) {
        size_t length = strcspn(at, "&");
        size_t equals = strcspn(at, "=");
        if (equals >= length) {
            abort();
        }
        (void)decode(at, equals, name);
        (void)decode(at + equals + 1, length - equals - 1, value);
        if (!has_pair(query, name, value)) {
            abort();
        }
        at += length + (at[length] == '&');
    }
    if (count != query->count) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *parts[PARTS_MAX];
    size_t count = 0;
    cv_auto_free char *text = malloc(size + 1);
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs query = {0};
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs headers = {0};
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t at = 0; at <= size && count < PARTS_MAX; at += strlen(text + at) + 1) {
        parts[count++] = text + at;
    }
    cv_s3_pairs_add(&headers, "host", "store.example");
    for (size_t i = 1; i + 1 < count; i += 2) {
        cv_s3_pairs_add(i % 4 == 1 ? &query : &headers, parts[i], parts[i + 1]);
    }
    cv_auto_free char *path = NULL;
    cv_auto_free char *authorization = NULL;
    cv_auto_free char *url = NULL;
    struct cv_error error;
    const struct cv_s3_signing signing = {
        .access_key = "key", .secret_key = "secret", .region = "r", .service = "s3", .time_s = 1};
    if (cv_format(&path, &error, "/%s", parts[0])) {
        return 0;
    }
    const struct cv_s3_message message = {.method = "GET",
                                          .path = path,
                                          .query = &query,
                                          .headers = &headers,
                                          .payload_hash = CV_S3_EMPTY_HASH};
    if (cv_s3_sign(&signing, &message, &authorization, &error) ||
        cv_s3_presign(&signing, &message, 60, &url, &error)) {
        return 0;
    }
    check_query(&query);
    return 0;
}
