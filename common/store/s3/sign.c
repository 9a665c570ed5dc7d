#include "common/store/s3/sign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"

enum { DIGEST_BYTES = 32, DATE_BYTES = 8 /* of "20150830" */ };

/* ---- pairs ----------------------------------------------------------------------------------- */

void cv_s3_pairs_deinit(struct cv_s3_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        free(pairs->items[i].name);
        free(pairs->items[i].value);
    }
    free(pairs->items);
    *pairs = (struct cv_s3_pairs){0};
}

void cv_s3_pairs_add(struct cv_s3_pairs *pairs, const char *name, const char *value)
{
    struct cv_s3_pair pair = {strdup(name), strdup(value)};
    if (!pair.name || !pair.value || !CV_MAKE_ROOM(pairs->items, pairs->count)) {
        free(pair.name);
        free(pair.value);
        pairs->failed = true;
        return;
    }
    pairs->items[pairs->count++] = pair;
}

void cv_s3_pairs_format(struct cv_s3_pairs *pairs, const char *name, const char *format, ...)
{
    char *value = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&value, format, arguments);
    va_end(arguments);
    if (length < 0) {
        pairs->failed = true;
        return;
    }
    cv_s3_pairs_add(pairs, name, value);
    free(value);
}

/* ---- canonical forms ------------------------------------------------------------------------- */

/* Compares by name, then by value. Comparing "name=value" would be wrong, because '=' may be
 * greater than characters of a longer name. */
static int compare_pairs(const void *left, const void *right)
{
    const struct cv_s3_pair *a = left;
    const struct cv_s3_pair *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : strcmp(a->value, b->value);
}

static void sort_pairs(struct cv_s3_pairs *pairs)
{
    if (pairs->count > 1) {
        qsort(pairs->items, pairs->count, sizeof(pairs->items[0]), compare_pairs);
    }
}

static int no_memory(struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to sign a request");
}

int cv_s3_query_text(const struct cv_s3_pairs *query, char **ret_text, struct cv_error *error)
{
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs encoded = {0};
    for (size_t i = 0; query && i < query->count; i++) {
        cv_auto(cv_buffer_deinit) struct cv_buffer name = CV_BUFFER_INIT;
        cv_auto(cv_buffer_deinit) struct cv_buffer value = CV_BUFFER_INIT;
        cv_buffer_text(&name, "");
        cv_buffer_text(&value, "");
        cv_percent_encode(&name, query->items[i].name, false);
        cv_percent_encode(&value, query->items[i].value, false);
        if (name.failed || value.failed) {
            return no_memory(error);
        }
        cv_s3_pairs_add(&encoded, name.data, value.data);
    }
    if (encoded.failed || (query && query->failed)) {
        return no_memory(error);
    }
    sort_pairs(&encoded);
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    for (size_t i = 0; i < encoded.count; i++) {
        cv_buffer_printf(&text, "%s%s=%s", i > 0 ? "&" : "", encoded.items[i].name,
                         encoded.items[i].value);
    }
    return cv_buffer_detach(&text, ret_text, error);
}

/* Appends a value without blanks at its ends and with single blanks within. */
static void append_header_value(struct cv_buffer *buffer, const char *value)
{
    value += strspn(value, " \t");
    while (*value) {
        size_t word = strcspn(value, " \t");
        cv_buffer_append(buffer, value, word);
        value += word;
        value += strspn(value, " \t");
        if (*value) {
            cv_buffer_text(buffer, " ");
        }
    }
}

/* Writes the sorted headers, one line per name with its values joined, and the list of names. */
static int canonical_headers(const struct cv_s3_pairs *headers, struct cv_buffer *lines,
                             struct cv_buffer *names, struct cv_error *error)
{
    /* A shallow copy, sorted by name only, so that values of one name keep their order. */
    cv_auto_free struct cv_s3_pair *items = calloc(headers->count + 1, sizeof(items[0]));
    if (!items || headers->failed) {
        return no_memory(error);
    }
    for (size_t i = 0; i < headers->count; i++) {
        size_t at = i;
        for (; at > 0 && strcmp(items[at - 1].name, headers->items[i].name) > 0; at--) {
            items[at] = items[at - 1];
        }
        items[at] = headers->items[i];
    }
    for (size_t i = 0; i < headers->count; i++) {
        bool again = i > 0 && strcmp(items[i].name, items[i - 1].name) == 0;
        if (again) {
            lines->length--; /* removes the newline after the value before */
            cv_buffer_text(lines, ",");
        } else {
            cv_buffer_printf(names, "%s%s", i > 0 ? ";" : "", items[i].name);
            cv_buffer_printf(lines, "%s:", items[i].name);
        }
        append_header_value(lines, items[i].value);
        cv_buffer_text(lines, "\n");
    }
    return 0;
}

/* ---- digests --------------------------------------------------------------------------------- */

/* Calculates the SHA-256 of memory as lower-case hex. */
static int sha256_hex(const void *data, size_t size, char hex[CV_S3_HASH_SIZE],
                      struct cv_error *error)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (EVP_Digest(data, size, digest, NULL, EVP_sha256(), NULL) != 1) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute SHA-256");
    }
    cv_hex(digest, DIGEST_BYTES, hex);
    return 0;
}

static bool hmac(const void *key, size_t key_size, const char *text, size_t length,
                 unsigned char digest[DIGEST_BYTES])
{
    unsigned size = 0;
    return HMAC(EVP_sha256(), key, (int)key_size, (const unsigned char *)text, length, digest,
                &size) &&
           size == DIGEST_BYTES;
}

void cv_s3_format_date(int64_t time_s, char text[CV_S3_DATE_SIZE])
{
    time_t time = (time_t)time_s;
    struct tm parts;
    text[0] = '\0';
    if (gmtime_r(&time, &parts)) {
        (void)strftime(text, CV_S3_DATE_SIZE, "%Y%m%dT%H%M%SZ", &parts);
    }
}

/* ---- signing --------------------------------------------------------------------------------- */

struct scope {
    char date[CV_S3_DATE_SIZE];
    char *text; /* "20150830/us-east-1/s3/aws4_request" */
};

static int make_scope(const struct cv_s3_signing *signing, struct scope *scope,
                      struct cv_error *error)
{
    cv_s3_format_date(signing->time_s, scope->date);
    return cv_format(&scope->text, error, "%.*s/%s/%s/aws4_request", DATE_BYTES, scope->date,
                     signing->region, signing->service);
}

static int canonical_request(const struct cv_s3_message *message, const char *query,
                             const char *lines, const char *names, char hash[CV_S3_HASH_SIZE],
                             struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_buffer_printf(&text, "%s\n", message->method);
    cv_percent_encode(&text, message->path, true);
    cv_buffer_printf(&text, "\n%s\n%s\n%s\n%s", query, lines, names, message->payload_hash);
    return text.failed ? no_memory(error) : sha256_hex(text.data, text.length, hash, error);
}

static int signature(const struct cv_s3_signing *signing, const struct scope *scope,
                     const char *request_hash, char hex[CV_S3_HASH_SIZE], struct cv_error *error)
{
    cv_auto_free char *secret = NULL;
    cv_auto_free char *text = NULL;
    CV_TRY(cv_format(&secret, error, "AWS4%s", signing->secret_key));
    CV_TRY(
        cv_format(&text, error, ALGORITHM "\n%s\n%s\n%s", scope->date, scope->text, request_hash));
    unsigned char key[DIGEST_BYTES];
    const char *const parts[] = {signing->region, signing->service, "aws4_request", text};
    bool good = hmac(secret, strlen(secret), scope->date, DATE_BYTES, key);
    for (size_t i = 0; good && i < CV_COUNT(parts); i++) {
        good = hmac(key, sizeof(key), parts[i], strlen(parts[i]), key);
    }
    explicit_bzero(secret, strlen(secret));
    if (!good) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute HMAC-SHA-256");
    }
    cv_hex(key, sizeof(key), hex);
    return 0;
}

int cv_s3_sign(const struct cv_s3_signing *signing, const struct cv_s3_message *message,
               char **ret_authorization, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer lines = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer names = CV_BUFFER_INIT;
    cv_auto_free char *query = NULL;
    struct scope scope = {.text = NULL};
    char hash[CV_S3_HASH_SIZE];
    char hex[CV_S3_HASH_SIZE];
    CV_TRY(make_scope(signing, &scope, error));
    cv_auto_free char *scope_text = scope.text;
    CV_TRY(cv_s3_query_text(message->query, &query, error));
    CV_TRY(canonical_headers(message->headers, &lines, &names, error));
    if (lines.failed || names.failed) {
        CV_TRY(no_memory(error));
    }
    CV_TRY(canonical_request(message, query, lines.data, names.data, hash, error));
    CV_TRY(signature(signing, &scope, hash, hex, error));
    return cv_format(ret_authorization, error,
                     ALGORITHM " Credential=%s/%s, SignedHeaders=%s, Signature=%s",
                     signing->access_key, scope_text, names.data, hex);
}

int cv_s3_presign(const struct cv_s3_signing *signing, const struct cv_s3_message *message,
                  int64_t seconds, char **ret_query, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer lines = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer names = CV_BUFFER_INIT;
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs query = {0};
    cv_auto_free char *text = NULL;
    struct scope scope = {.text = NULL};
    CV_TRY(make_scope(signing, &scope, error));
    cv_auto_free char *scope_text = scope.text;
    CV_TRY(canonical_headers(message->headers, &lines, &names, error));
    if (lines.failed || names.failed || !names.data) {
        CV_TRY(no_memory(error));
    }
    for (size_t i = 0; message->query && i < message->query->count; i++) {
        cv_s3_pairs_add(&query, message->query->items[i].name, message->query->items[i].value);
    }
    cv_s3_pairs_add(&query, "X-Amz-Algorithm", ALGORITHM);
    cv_s3_pairs_format(&query, "X-Amz-Credential", "%s/%s", signing->access_key, scope_text);
    cv_s3_pairs_add(&query, "X-Amz-Date", scope.date);
    cv_s3_pairs_format(&query, "X-Amz-Expires", "%lld", (long long)seconds);
    if (signing->session_token) {
        cv_s3_pairs_add(&query, "X-Amz-Security-Token", signing->session_token);
    }
    cv_s3_pairs_add(&query, "X-Amz-SignedHeaders", names.data);
    char hash[CV_S3_HASH_SIZE];
    char hex[CV_S3_HASH_SIZE];
    CV_TRY(cv_s3_query_text(&query, &text, error));
    CV_TRY(canonical_request(message, text, lines.data, names.data, hash, error));
    CV_TRY(signature(signing, &scope, hash, hex, error));
    return cv_format(ret_query, error, "%s&X-Amz-Signature=%s", text, hex);
}
