#include "gateway/request.h"

#include "gateway/assets.h"
#include "gateway/media.h"
#include "gateway/upload.h"

#include <string.h>
#include <strings.h>

enum { ID_BYTES = 12, ONCE_KEY_MAX_BYTES = 255 };

static void choose_id(struct exchange *exchange)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    const char *given = exchange_header(exchange, "X-Request-Id");
    size_t length = given ? strlen(given) : 0;
    if (length >= 8 && length < REQUEST_ID_SIZE && strspn(given, letters) == length) {
        (void)memcpy(exchange->id, given, length + 1);
        return;
    }
    unsigned char bytes[ID_BYTES];
    arc4random_buf(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        exchange->id[i] = letters[bytes[i] % 64];
    }
    exchange->id[ID_BYTES] = '\0';
}

struct header_counts {
    int hosts, lengths, encodings, unknown_encodings, authorizations, cookies, malformed;
};

/* Whether the name is invalid: the library includes a space before the colon in the name, and the
 * folded value of "Transfer-Encoding:", too. A proxy before this server may interpret such a header
 * differently. */
static bool is_malformed(const char *name, size_t size)
{
    static const char *const lengths[] = {"Content-Length", "Transfer-Encoding"};
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (size_t i = 0; i < CV_COUNT(lengths); i++) {
        size_t length = strlen(lengths[i]);
        if (size > length && strncasecmp(name, lengths[i], length) == 0) {
            return true;
        }
    }
    return size == 0 || strspn(name, token) != size;
}

static enum MHD_Result count_header(void *opaque, enum MHD_ValueKind kind, const char *name,
                                    size_t name_size, const char *value, size_t value_size)
{
    struct header_counts *counts = opaque;
    (void)kind;
    counts->malformed += is_malformed(name, name_size);
    counts->hosts += strcasecmp(name, "Host") == 0;
    counts->lengths += strcasecmp(name, "Content-Length") == 0;
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        counts->encodings++;
        counts->unknown_encodings += value_size != 7 || strncasecmp(value, "chunked", 7) != 0;
    }
    counts->authorizations += strcasecmp(name, "Authorization") == 0;
    counts->cookies += strcasecmp(name, "Cookie") == 0;
    return MHD_YES;
}

/* Refuses a request that two servers in a row could interpret differently, or that says something
 * twice. The connection is closed afterwards, because the next request may begin elsewhere than this
 * server assumes (RFC 9112, 6.1, 6.3 and 11.2): the library reads a body in an unknown encoding to
 * the end of the connection. */
static void refuse_ambiguous(struct exchange *exchange, const char *version)
{
    struct header_counts counts = {0};
    (void)MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, count_header, &counts);
    bool is_old = strcmp(version, "HTTP/1.1") != 0 && counts.encodings > 0;
    if (counts.hosts > 1 || counts.lengths + counts.encodings > 1 || counts.authorizations > 1 ||
        counts.cookies > 1 || counts.malformed > 0 || is_old || exchange->target[0] != '/') {
        exchange_refuse(
            exchange, REFUSE_BAD_REQUEST,
            "a header that may be there once, or the length of the body, is given twice");
    } else if (counts.unknown_encodings > 0) {
        exchange_refuse(exchange, REFUSE_ENCODING, "the only Transfer-Encoding is chunked");
    }
    exchange->is_body_dropped = exchange->answer.status != 0;
}

static bool is_json(const struct exchange *exchange)
{
    const char *type = exchange_header(exchange, "Content-Type");
    return type && strncasecmp(type, "application/json", 16) == 0 &&
           (!type[16] || strchr("; ", type[16]));
}

static bool is_part(const struct exchange *exchange)
{
    const char *type = exchange_header(exchange, "Content-Type");
    return type && strcasecmp(type, "application/offset+octet-stream") == 0;
}

int64_t request_length(const struct exchange *exchange)
{
    const char *length = exchange_header(exchange, "Content-Length");
    int64_t bytes = 0;
    return length && cv_parse_int(length, 0, INT64_MAX, &bytes) ? bytes : 0;
}

void request_check_length(struct exchange *exchange)
{
    const char *length = exchange_header(exchange, "Content-Length");
    int64_t bytes = 0;
    int64_t most = exchange->operation->takes_bytes ? INT64_MAX : BODY_MAX_BYTES;
    exchange->is_body_dropped =
        length && (!cv_parse_int(length, 0, INT64_MAX, &bytes) || bytes > most);
    if (exchange->is_body_dropped && (bytes == 0 || bytes > DISCARDED_MAX_BYTES)) {
        exchange_refuse(exchange, REFUSE_TOO_LARGE, "a body has at most 1 MiB");
    }
}

void request_check_form(struct exchange *exchange)
{
    const char *encoding = exchange_header(exchange, "Content-Encoding");
    bool has_length = exchange_header(exchange, "Content-Length");
    if (exchange->operation->takes_bytes && !has_length) {
        /* The library continues with the next chunk even if the connection is suspended. */
        exchange_refuse(
            exchange, REFUSE_LENGTH,
            "say by Content-Length how many bytes come: a body in chunks is not taken here");
    } else if (exchange->operation->takes_bytes && !is_part(exchange)) {
        exchange_refuse(exchange, REFUSE_MEDIA_TYPE, "send application/offset+octet-stream");
    } else if (exchange->operation->is_creation && exchange->media->is_bucket &&
               upload_is_tus_creation(exchange)) {
        exchange_refuse(
            exchange, REFUSE_NO_TUS,
            "videos are kept in a bucket, which does not speak tus: send {\"name\", \"size\"} as "
            "JSON to POST /uploads, and PUT the parts to the URLs that "
            "POST /uploads/{id}/parts answers with");
    } else if (encoding ||
               (exchange->operation->has_body && !is_json(exchange) &&
                !(exchange->operation->is_creation && upload_translate_creation(exchange)))) {
        exchange_refuse(exchange, REFUSE_MEDIA_TYPE, "send application/json without an encoding");
    }
    if (exchange->answer.status) {
        exchange->is_body_dropped =
            request_length(exchange) > 0 || (exchange->operation->takes_bytes && !has_length);
    }
}

static void find_operation(struct exchange *exchange, const char *method)
{
    char methods[METHODS_SIZE];
    size_t length = strcspn(exchange->target, "?");
    exchange->operation =
        media_is_target(exchange->target) ? &media_operation : assets_share_page(exchange->target);
    if (exchange->operation) {
        if (exchange->access == ACCESS_WRITE) {
            (void)snprintf(exchange->answer.methods, METHODS_SIZE, "GET, HEAD");
            exchange_refuse(exchange, REFUSE_METHOD, "objects are read with GET and HEAD alone");
        }
        return;
    }
    int result = route_find(method, exchange->target, length, &exchange->operation, methods);
    if (result == ROUTE_NO_SUCH_PATH) {
        if (!assets_answer_missing(exchange)) {
            exchange_refuse_missing(exchange);
        }
    } else if (result == ROUTE_NO_SUCH_METHOD) {
        (void)memcpy(exchange->answer.methods, methods, sizeof(methods));
        exchange_refuse(exchange, REFUSE_METHOD, "the header Allow lists the methods of this path");
    }
}

static void check_once_key(struct exchange *exchange)
{
    const char *key = exchange_header(exchange, "Idempotency-Key");
    if (!key || !exchange->operation->is_repeatable) {
        return;
    }
    size_t length = strlen(key);
    for (const char *at = key; *at; at++) {
        length = *at < ' ' || *at > '~' ? 0 : length;
    }
    if (length == 0 || length > ONCE_KEY_MAX_BYTES) {
        exchange_refuse(exchange, REFUSE_BAD_REQUEST,
                        "an Idempotency-Key has 1 to 255 printable characters of ASCII");
    }
    exchange->once_key = key;
}

void request_check_conditions(struct exchange *exchange)
{
    check_once_key(exchange);
    exchange->if_match =
        exchange->access == ACCESS_WRITE ? exchange_header(exchange, "If-Match") : NULL;
    if (!exchange->answer.status && exchange->if_match && !exchange->operation->version_sql) {
        exchange_refuse(exchange, REFUSE_BAD_REQUEST,
                        "this operation takes no If-Match: send it without");
    }
}

void request_begin(struct exchange *exchange, const char *method, const char *version)
{
    exchange->access = strcmp(method, "HEAD") == 0  ? ACCESS_HEAD
                       : strcmp(method, "GET") == 0 ? ACCESS_READ
                                                    : ACCESS_WRITE;
    choose_id(exchange);
    refuse_ambiguous(exchange, version);
    if (!exchange->answer.status && !assets_answer(exchange, method)) {
        find_operation(exchange, method);
    }
}

void request_answer_document(struct exchange *exchange)
{
    struct answer *answer = &exchange->answer;
    bool is_page = *exchange->at == STEP_PAGE;
    answer->fixed_body = is_page ? openapi_page : openapi_document;
    answer->length = is_page ? openapi_page_length : openapi_length;
    answer->content_type = is_page ? "text/html; charset=utf-8" : NULL;
    answer->headers = json_pack("{s:s}", "Content-Security-Policy", "default-src 'none'");
    answer->status = 200;
    (void)snprintf(answer->etag, sizeof(answer->etag), "\"%s-%zu\"", CV_VERSION, answer->length);
}

void request_read_header(struct exchange *exchange)
{
    bool is_offset = *exchange->at == STEP_OFFSET;
    const char *given = exchange_header(exchange, is_offset ? "Upload-Offset" : "Last-Event-ID");
    json_t *text = given ? json_string(given) : NULL;
    if (text &&
        json_object_set_new(exchange->values, is_offset ? "offset" : "last_event_id", text) != 0) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
    }
}

void request_check_parameters(struct exchange *exchange)
{
    struct cv_error error;
    json_t *faults = NULL;
    size_t length = strcspn(exchange->target, "?");
    const char *query = exchange->target[length] ? exchange->target + length + 1 : "";
    const struct request_values values = {exchange->target, length, query, exchange->body.data,
                                          exchange->body.length};
    if (exchange->is_body_dropped) {
        exchange_refuse(exchange, REFUSE_TOO_LARGE, "a body has at most 1 MiB");
        return;
    }
    int result = exchange->body.failed ? -1
                                       : route_check(exchange->operation, &values,
                                                     &exchange->values, &faults, &error);
    if (result == PARAMETERS_REFUSED) {
        exchange_refuse_faults(exchange, REFUSE_BAD_REQUEST,
                               "see errors for what is wrong with which parameter", faults);
        json_decref(faults);
    } else if (result != 0) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
    }
}
