#include "common/store/s3/answer.h"

#include <ctype.h>
#include <expat.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

/* ---- XML ------------------------------------------------------------------------------------- */

enum { PATH_SIZE = 512, DEPTH_MAX = 16 }; /* S3's answers are nested four levels deep */

struct reading {
    XML_Parser parser;
    char path[PATH_SIZE];
    int depth;
    struct cv_buffer text;
    cv_s3_xml_element *element;
    void *opaque;
    struct cv_error *error;
    int result;
};

static void XML_parser_free(XML_Parser parser)
{
    XML_ParserFree(parser);
}
CV_DEFINE_CLEANUP(XML_Parser, XML_parser_free)

static void stop(struct reading *reading, int result)
{
    reading->result = result;
    (void)XML_StopParser(reading->parser, XML_FALSE);
}

static void on_start(void *opaque, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *reading = opaque;
    (void)attributes;
    const char *colon = strchr(name, ':');
    size_t length = strlen(reading->path);
    int added = snprintf(reading->path + length, PATH_SIZE - length, "%s%s", length > 0 ? "/" : "",
                         colon ? colon + 1 : name);
    if (++reading->depth > DEPTH_MAX || added < 0 || (size_t)added >= PATH_SIZE - length) {
        stop(reading, cv_fail(reading->error, CV_ERROR_SERVER, "the answer's XML is too deep"));
        return;
    }
    cv_buffer_clear(&reading->text);
}

static void on_text(void *opaque, const XML_Char *text, int length)
{
    struct reading *reading = opaque;
    cv_buffer_append(&reading->text, text, (size_t)length);
}

static void on_end(void *opaque, const XML_Char *name)
{
    struct reading *reading = opaque;
    (void)name;
    if (reading->text.failed) {
        stop(reading, cv_fail(reading->error, CV_ERROR_OUT_OF_MEMORY, "no memory for an answer"));
        return;
    }
    const char *text = reading->text.length > 0 ? reading->text.data : "";
    int result = reading->element(reading->opaque, reading->path, text, reading->error);
    if (result) {
        stop(reading, result);
        return;
    }
    cv_buffer_clear(&reading->text);
    char *slash = strrchr(reading->path, '/');
    *(slash ? slash : reading->path) = '\0';
    reading->depth--;
}

/* Refuses a document type, which could declare entities; S3 uses neither. */
static void on_document_type(void *opaque, const XML_Char *name, const XML_Char *system_id,
                             const XML_Char *public_id, int has_subset)
{
    struct reading *reading = opaque;
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_subset;
    stop(reading, cv_fail(reading->error, CV_ERROR_SERVER, "the answer's XML has a document type"));
}

int cv_s3_xml_read(const char *text, size_t length, cv_s3_xml_element *element, void *opaque,
                   struct cv_error *error)
{
    cv_auto(XML_parser_free) XML_Parser parser = XML_ParserCreate(NULL);
    CV_TRY_MEMORY(parser, error, "an answer");
    struct reading reading = {
        .parser = parser, .element = element, .opaque = opaque, .error = error};
    XML_SetUserData(parser, &reading);
    XML_SetElementHandler(parser, on_start, on_end);
    XML_SetCharacterDataHandler(parser, on_text);
    XML_SetStartDoctypeDeclHandler(parser, on_document_type);
    bool whole = length <= INT32_MAX && XML_Parse(parser, text, (int)length, 1) == XML_STATUS_OK;
    cv_buffer_deinit(&reading.text);
    if (reading.result) {
        return reading.result;
    }
    return whole ? 0
                 : cv_fail(error, CV_ERROR_CONNECTION, "the server's answer is not whole XML (%s)",
                           XML_ErrorString(XML_GetErrorCode(parser)));
}

struct search {
    const char *path;
    char *value;
    size_t size;
};

static int find_value(void *opaque, const char *path, const char *text, struct cv_error *error)
{
    struct search *search = opaque;
    (void)error;
    if (strcmp(path, search->path) == 0) {
        (void)snprintf(search->value, search->size, "%s", text);
    }
    return 0;
}

int cv_s3_xml_find(const char *text, size_t length, const char *path, char *value, size_t size,
                   struct cv_error *error)
{
    struct search search = {path, value, size};
    value[0] = '\0';
    return cv_s3_xml_read(text, length, find_value, &search, error);
}

void cv_s3_xml_escape(struct cv_buffer *buffer, const char *text)
{
    for (const char *c = text; *c; c++) {
        switch (*c) {
        case '&':
            cv_buffer_text(buffer, "&amp;");
            break;
        case '<':
            cv_buffer_text(buffer, "&lt;");
            break;
        case '>':
            cv_buffer_text(buffer, "&gt;");
            break;
        case '"':
            cv_buffer_text(buffer, "&quot;");
            break;
        default:
            cv_buffer_append(buffer, c, 1);
        }
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

enum {
    CODE_SIZE = 64,
    CLOCK_SKEW_MAX_MS = 15 * 60 * 1000, /* the limit of S3 */
    RETRY_AFTER_MAX_S = 60,
};

/* ---- the head -------------------------------------------------------------------------------- */

void cv_s3_answer_init(struct cv_s3_answer *answer)
{
    *answer = (struct cv_s3_answer){.content_length = -1, .range_start = -1};
}

void cv_s3_answer_deinit(struct cv_s3_answer *answer)
{
    cv_metadata_deinit(&answer->metadata);
}

static void copy_etag(struct cv_s3_answer *answer, const char *value)
{
    if (strncasecmp(value, "W/", 2) == 0) {
        value += 2;
    }
    size_t length = strlen(value);
    if (length >= 2 && value[0] == '"' && value[length - 1] == '"') {
        value++;
        length -= 2;
    }
    (void)snprintf(answer->etag, sizeof(answer->etag), "%.*s", (int)length, value);
}

static void record_metadata(struct cv_s3_answer *answer, const char *name, char *value)
{
    struct cv_error ignored;
    cv_s3_metadata_decode(value);
    if (strcmp(name, CV_S3_DIGEST_NAME) == 0) {
        if (strlen(value) == CV_STORE_SHA256_SIZE - 1) {
            memcpy(answer->sha256, value, CV_STORE_SHA256_SIZE);
        }
    } else if (cv_metadata_set(&answer->metadata, name, value, &ignored)) {
        return; /* written by another program, against our rules */
    }
}

static int64_t date_ms(const char *value)
{
    static const int64_t end_of_year_9999 = INT64_C(253402300799);
    time_t time = curl_getdate(value, NULL);
    return time > 0 && time <= end_of_year_9999 ? (int64_t)time * 1000 : 0;
}

static void record_header(struct cv_s3_answer *answer, const char *name, char *value)
{
    static const char metadata_prefix[] = "x-amz-meta-";
    int64_t number = 0;
    if (strcmp(name, "etag") == 0) {
        copy_etag(answer, value);
    } else if (strcmp(name, "content-length") == 0) {
        answer->content_length = cv_parse_int(value, 0, INT64_MAX, &number) ? number : -1;
    } else if (strcmp(name, "content-range") == 0) {
        if (sscanf(value, "bytes %" SCNd64 "-%" SCNd64 "/%" SCNd64, &answer->range_start,
                   &answer->range_end, &answer->range_size) != 3) {
            answer->range_start = -1;
        }
    } else if (strcmp(name, "last-modified") == 0) {
        answer->modified_ms = date_ms(value);
    } else if (strcmp(name, "date") == 0) {
        answer->date_ms = date_ms(value);
    } else if (strcmp(name, "retry-after") == 0) {
        answer->retry_after_ms =
            cv_parse_int(value, 0, RETRY_AFTER_MAX_S, &number) ? number * 1000 : 0;
    } else if (strcmp(name, "x-amz-bucket-region") == 0) {
        (void)snprintf(answer->region, sizeof(answer->region), "%s", value);
    } else if (strcmp(name, "x-amz-server-side-encryption") == 0) {
        answer->etag_is_no_md5 |= strncmp(value, "aws:", 4) == 0;
    } else if (strcmp(name, "x-amz-server-side-encryption-customer-algorithm") == 0) {
        answer->etag_is_no_md5 = true;
    } else if (strncmp(name, metadata_prefix, strlen(metadata_prefix)) == 0) {
        record_metadata(answer, name + strlen(metadata_prefix), value);
    }
}

void cv_s3_answer_header(struct cv_s3_answer *answer, const char *line, size_t length)
{
    char text[8192]; /* servers allow less for all headers together */
    if (length >= sizeof(text)) {
        return;
    }
    memcpy(text, line, length);
    text[length] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    if (strncmp(text, "HTTP/", 5) == 0) {
        cv_s3_answer_deinit(answer);
        cv_s3_answer_init(answer);
        const char *blank = strchr(text, ' ');
        answer->status = blank ? (int)strtol(blank, NULL, 10) : 0;
        return;
    }
    char *colon = strchr(text, ':');
    if (!colon) {
        return;
    }
    *colon = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t");
    for (size_t end = strlen(value); end > 0 && strchr(" \t", value[end - 1]); end--) {
        value[end - 1] = '\0';
    }
    for (char *c = text; *c; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    record_header(answer, text, value);
}

void cv_s3_answer_info(const struct cv_s3_answer *answer, struct cv_object_info *ret_info)
{
    *ret_info = (struct cv_object_info){
        .size = answer->range_start >= 0 ? answer->range_size : answer->content_length,
        .modified_ms = answer->modified_ms,
    };
    memcpy(ret_info->etag, answer->etag, sizeof(ret_info->etag));
    memcpy(ret_info->sha256, answer->sha256, sizeof(ret_info->sha256));
}

/* ---- failures -------------------------------------------------------------------------------- */

/* All errors of servers: the first row that fits applies, codes before statuses. */
static const struct {
    const char *code; /* NULL: any */
    int status;       /* 0: any; 300 and 500: any status of that hundred */
    enum cv_error_type type;
    enum cv_s3_remedy remedy;
} meanings[] = {
    {"SlowDown", 0, CV_ERROR_THROTTLED, CV_S3_RETRY_SLOWLY},
    {"Throttling", 0, CV_ERROR_THROTTLED, CV_S3_RETRY_SLOWLY},
    {"ThrottlingException", 0, CV_ERROR_THROTTLED, CV_S3_RETRY_SLOWLY},
    {"TooManyRequests", 0, CV_ERROR_THROTTLED, CV_S3_RETRY_SLOWLY},
    {"RequestLimitExceeded", 0, CV_ERROR_THROTTLED, CV_S3_RETRY_SLOWLY},
    {"BandwidthLimitExceeded", 0, CV_ERROR_THROTTLED, CV_S3_RETRY_SLOWLY},
    {"InternalError", 0, CV_ERROR_SERVER, CV_S3_RETRY},
    {"ServiceUnavailable", 0, CV_ERROR_SERVER, CV_S3_RETRY_SLOWLY},
    {"OperationAborted", 0, CV_ERROR_SERVER, CV_S3_RETRY},
    {"ConcurrentModification", 0, CV_ERROR_SERVER, CV_S3_RETRY},
    {"RequestTimeout", 0, CV_ERROR_TIMEOUT, CV_S3_RETRY},
    /* Damaged in transfer: sending the same bytes again helps. */
    {"IncompleteBody", 0, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {"BadDigest", 0, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {"InvalidDigest", 0, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {"XAmzContentSHA256Mismatch", 0, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {"RequestTimeTooSkewed", 0, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP},
    {"ExpiredToken", 0, CV_ERROR_AUTHENTICATION, CV_S3_RENEW},
    {"TokenRefreshRequired", 0, CV_ERROR_AUTHENTICATION, CV_S3_RENEW},
    {"InvalidToken", 0, CV_ERROR_AUTHENTICATION, CV_S3_RENEW},
    {"InvalidAccessKeyId", 0, CV_ERROR_AUTHENTICATION, CV_S3_RENEW},
    {"SignatureDoesNotMatch", 0, CV_ERROR_AUTHENTICATION, CV_S3_GIVE_UP},
    {"NoSuchBucket", 0, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP},
    {"AuthorizationHeaderMalformed", 0, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP},
    {"PermanentRedirect", 0, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP},
    {"NoSuchKey", 0, CV_ERROR_OBJECT_NOT_FOUND, CV_S3_GIVE_UP},
    {"NoSuchVersion", 0, CV_ERROR_OBJECT_NOT_FOUND, CV_S3_GIVE_UP},
    {"NoSuchUpload", 0, CV_ERROR_OBJECT_NOT_FOUND, CV_S3_GIVE_UP},
    {"KeyTooLongError", 0, CV_ERROR_INVALID_KEY, CV_S3_GIVE_UP},
    {"EntityTooLarge", 0, CV_ERROR_LIMIT_EXCEEDED, CV_S3_GIVE_UP},
    {"QuotaExceeded", 0, CV_ERROR_DISK_FULL, CV_S3_GIVE_UP},
    {"XMinioStorageFull", 0, CV_ERROR_DISK_FULL, CV_S3_GIVE_UP},
    {NULL, 401, CV_ERROR_AUTHENTICATION, CV_S3_GIVE_UP},
    {NULL, 403, CV_ERROR_AUTHORIZATION, CV_S3_GIVE_UP},
    /* A missing object has the code NoSuchKey; without it, the bucket is missing or this is another
     * server. */
    {NULL, 404, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP},
    {NULL, 408, CV_ERROR_TIMEOUT, CV_S3_RETRY},
    {NULL, 409, CV_ERROR_CONFLICT, CV_S3_GIVE_UP},
    {NULL, 412, CV_ERROR_CONFLICT, CV_S3_GIVE_UP},
    {NULL, 425, CV_ERROR_SERVER, CV_S3_RETRY},
    {NULL, 429, CV_ERROR_THROTTLED, CV_S3_RETRY_SLOWLY},
    {NULL, 501, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP},
    {NULL, 503, CV_ERROR_THROTTLED, CV_S3_RETRY_SLOWLY},
    {NULL, 507, CV_ERROR_DISK_FULL, CV_S3_GIVE_UP},
    {NULL, 300, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP}, /* redirections are not followed */
    {NULL, 500, CV_ERROR_SERVER, CV_S3_RETRY},
    {NULL, 0, CV_ERROR_INTERNAL, CV_S3_GIVE_UP},
};

struct told {
    char code[CODE_SIZE];
    char message[256];
    char region[64];
};

static int read_error(void *opaque, const char *path, const char *text, struct cv_error *error)
{
    struct told *told = opaque;
    (void)error;
    if (strcmp(path, "Error/Code") == 0) {
        (void)snprintf(told->code, sizeof(told->code), "%s", text);
    } else if (strcmp(path, "Error/Message") == 0) {
        (void)snprintf(told->message, sizeof(told->message), "%s", text);
    } else if (strcmp(path, "Error/Region") == 0) {
        (void)snprintf(told->region, sizeof(told->region), "%s", text);
    }
    return 0;
}

void cv_s3_error_code(const char *body, size_t size, char code[64])
{
    struct told told = {.code = ""};
    struct cv_error ignored;
    code[0] = '\0';
    if (size > 0 && cv_s3_xml_read(body, size, read_error, &told, &ignored) == 0) {
        memcpy(code, told.code, sizeof(told.code));
    }
}

static size_t find_meaning(const char *code, int status)
{
    size_t i = 0;
    for (; i + 1 < CV_COUNT(meanings); i++) {
        if (meanings[i].code
                ? strcmp(meanings[i].code, code) == 0
                : meanings[i].status == status ||
                      (meanings[i].status % 100 == 0 && meanings[i].status == status / 100 * 100)) {
            break;
        }
    }
    return i;
}

static int describe_skew(const struct cv_s3_answer *answer, struct cv_error *error)
{
    int64_t behind_s = (answer->date_ms - cv_wall_ms()) / 1000;
    return cv_fail(error, CV_ERROR_CONFIGURATION,
                   "the clock of this machine is %" PRId64 " s %s the object store's: set it right",
                   behind_s < 0 ? -behind_s : behind_s, behind_s < 0 ? "ahead of" : "behind");
}

/* Whether the request failed because of a wrong clock. The answer to a HEAD has no body with the
 * code, so the clocks are compared. */
static bool is_skewed(const struct cv_s3_answer *answer, const char *code)
{
    int64_t skew = answer->date_ms > 0 ? answer->date_ms - cv_wall_ms() : 0;
    return strcmp(code, "RequestTimeTooSkewed") == 0 ||
           (answer->status == 403 && !code[0] &&
            (skew > CLOCK_SKEW_MAX_MS || skew < -CLOCK_SKEW_MAX_MS));
}

enum cv_s3_remedy cv_s3_answer_failure(const struct cv_s3_answer *answer, const char *body,
                                       size_t size, struct cv_error *error)
{
    struct told told = {.code = ""};
    struct cv_error ignored;
    if (size == 0 || cv_s3_xml_read(body, size, read_error, &told, &ignored)) {
        told = (struct told){.code = ""};
    }
    size_t i = find_meaning(told.code, answer->status);
    const char *region = told.region[0] ? told.region : answer->region;
    int result;
    if (is_skewed(answer, told.code) && answer->date_ms > 0) {
        result = describe_skew(answer, error);
    } else if (meanings[i].type == CV_ERROR_CONFIGURATION && region[0]) {
        result = cv_fail(error, CV_ERROR_CONFIGURATION,
                         "the bucket lies in region %s: set S3_REGION=%s (%d %s)", region, region,
                         answer->status, told.code);
    } else {
        result =
            cv_fail(error, meanings[i].type, "the object store answers %d%s%s%s%s", answer->status,
                    told.code[0] ? " " : "", told.code, told.message[0] ? ": " : "", told.message);
    }
    (void)result;
    return meanings[i].remedy;
}

/* ---- transfers without an answer ------------------------------------------------------------- */

static const struct {
    CURLcode code;
    enum cv_error_type type;
    enum cv_s3_remedy remedy;
} transfer_meanings[] = {
    {CURLE_OPERATION_TIMEDOUT, CV_ERROR_TIMEOUT, CV_S3_RETRY},
    {CURLE_COULDNT_RESOLVE_HOST, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {CURLE_COULDNT_RESOLVE_PROXY, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {CURLE_COULDNT_CONNECT, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {CURLE_SEND_ERROR, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {CURLE_RECV_ERROR, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {CURLE_GOT_NOTHING, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {CURLE_PARTIAL_FILE, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {CURLE_SSL_CONNECT_ERROR, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {CURLE_WEIRD_SERVER_REPLY, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {CURLE_UNSUPPORTED_PROTOCOL, CV_ERROR_CONNECTION, CV_S3_RETRY}, /* garbage for a status line */
    {CURLE_BAD_CONTENT_ENCODING, CV_ERROR_CONNECTION, CV_S3_RETRY},
    {CURLE_PEER_FAILED_VERIFICATION, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP},
    {CURLE_SSL_ISSUER_ERROR, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP},
    {CURLE_SSL_CACERT_BADFILE, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP},
    {CURLE_SSL_CERTPROBLEM, CV_ERROR_CONFIGURATION, CV_S3_GIVE_UP},
    {CURLE_OUT_OF_MEMORY, CV_ERROR_OUT_OF_MEMORY, CV_S3_GIVE_UP},
};

enum cv_s3_remedy cv_s3_transfer_failure(CURLcode code, const char *detail, struct cv_error *error)
{
    enum cv_error_type type = CV_ERROR_INTERNAL;
    enum cv_s3_remedy remedy = CV_S3_GIVE_UP;
    for (size_t i = 0; i < CV_COUNT(transfer_meanings); i++) {
        if (transfer_meanings[i].code == code) {
            type = transfer_meanings[i].type;
            remedy = transfer_meanings[i].remedy;
        }
    }
    const char *reason = detail[0] ? detail : curl_easy_strerror(code);
    int result;
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        result = cv_fail(error, type,
                         "the object store's certificate is not trusted: %s; the authorities to "
                         "trust are those of S3_CA_FILE, the host is that of S3_ENDPOINT",
                         reason);
    } else if (code == CURLE_SSL_CACERT_BADFILE) {
        result = cv_fail(error, type, "the authorities of S3_CA_FILE cannot be read: %s", reason);
    } else {
        result = cv_fail(error, type, "%s", reason);
    }
    (void)result;
    return remedy;
}

#define OPENING "=?UTF-8?"
#define CLOSING "?="

static bool is_plain(const char *value)
{
    for (const char *c = value; *c; c++) {
        if ((unsigned char)*c >= 0x80) {
            return false;
        }
    }
    return strncasecmp(value, OPENING, strlen(OPENING)) != 0;
}

int cv_s3_metadata_encode(const char *value, char **ret_text, struct cv_error *error)
{
    if (is_plain(value)) {
        return cv_format(ret_text, error, "%s", value);
    }
    size_t length = strlen(value);
    cv_auto_free char *base64 = malloc(length / 3 * 4 + 5);
    CV_TRY_MEMORY(base64, error, "metadata");
    (void)EVP_EncodeBlock((unsigned char *)base64, (const unsigned char *)value, (int)length);
    return cv_format(ret_text, error, OPENING "B?%s" CLOSING, base64);
}

static void decode_base64(char *text, size_t length)
{
    size_t padding = 0;
    while (padding < length && padding < 2 && text[length - 1 - padding] == '=') {
        padding++;
    }
    cv_auto_free char *copy = strndup(text, length);
    int got = copy
                  ? EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)copy, (int)length)
                  : -1;
    text[got >= (int)padding ? (size_t)got - padding : 0] = '\0';
}

static void decode_quoted(char *text, size_t length)
{
    size_t to = 0;
    for (size_t at = 0; at < length; at++) {
        bool is_code = text[at] == '=' && at + 2 < length;
        int high = is_code ? cv_hex_digit(text[at + 1]) : -1;
        int low = is_code ? cv_hex_digit(text[at + 2]) : -1;
        if (high >= 0 && low >= 0) {
            text[to++] = (char)(high << 4 | low);
            at += 2;
        } else {
            text[to++] = text[at] == '_' ? ' ' : text[at];
        }
    }
    text[to] = '\0';
}

void cv_s3_metadata_decode(char *text)
{
    size_t length = strlen(text);
    size_t head = strlen(OPENING) + 2;
    size_t tail = strlen(CLOSING);
    if (length < head + tail || strncasecmp(text, OPENING, strlen(OPENING)) != 0 ||
        text[head - 1] != '?' || strcmp(text + length - tail, CLOSING) != 0) {
        return;
    }
    char kind = (char)toupper((unsigned char)text[head - 2]);
    size_t inner = length - head - tail;
    memmove(text, text + head, inner);
    text[inner] = '\0';
    if (kind == 'B') {
        decode_base64(text, inner);
    } else if (kind == 'Q') {
        decode_quoted(text, inner);
    }
}
