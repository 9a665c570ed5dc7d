#include "common/store/s3/bucket.h"

#include "common/store/s3/answer.h"
#include "common/store/s3/list.h"
#include "common/store/s3/parts.h"
#include "common/store/s3/read.h"
#include "common/store/s3/s3.h"
#include "common/store/s3/write.h"

#include <openssl/evp.h>
#include <string.h>

/* ---- moving -------------------------------------------------------------------------------------- */

/* A request copies at most 5 GiB; larger objects are copied in parts of this size. */
#define COPY_MAX (INT64_C(5) << 30)
#define COPY_PART (INT64_C(1) << 30)

struct copying {
    struct cv_s3_store *store;
    const char *from;
    const char *to;
    struct cv_object_info info; /* of the original */
    struct cv_metadata metadata;
};

static void copying_deinit(struct copying *copying)
{
    cv_metadata_deinit(&copying->metadata);
}
CV_DEFINE_CLEANUP_ADDRESS(struct copying, copying_deinit)

/* Names the source as "/bucket/encoded%20key", with the condition that it has not changed since the
 * check. */
static int name_source(const struct copying *copying, struct cv_s3_request *request,
                       struct cv_error *error)
{
    const struct cv_s3_config *config = cv_s3_client_config(copying->store->client);
    cv_auto(cv_buffer_deinit) struct cv_buffer source = CV_BUFFER_INIT;
    cv_buffer_printf(&source, "/%s/", config->bucket);
    cv_percent_encode(&source, config->prefix, true);
    cv_percent_encode(&source, copying->from, true);
    CV_TRY_MEMORY(!source.failed, error, "a request");
    cv_s3_pairs_add(&request->headers, "x-amz-copy-source", source.data);
    cv_s3_pairs_format(&request->headers, "x-amz-copy-source-if-match", "\"%s\"",
                       copying->info.etag);
    request->stall_timeout_s = CV_S3_SLOW_STALL_S;
    return 0;
}

/* Checks the answer: an error may have status 200 here, too. */
static int check_copied(struct cv_s3_request *request, struct cv_error *error)
{
    char etag[CV_STORE_ETAG_SIZE + 2];
    const char *path = request->opaque;
    CV_TRY(
        cv_s3_xml_find(request->text.data, request->text.length, path, etag, sizeof(etag), error));
    if (!etag[0]) {
        char code[64];
        cv_s3_error_code(request->text.data, request->text.length, code);
        return cv_fail(error, CV_ERROR_SERVER, "the object store cannot copy: %s",
                       code[0] ? code : "no ETag in its answer");
    }
    size_t length = strlen(etag);
    bool quoted = length >= 2 && etag[0] == '"';
    (void)snprintf(request->answer.etag, sizeof(request->answer.etag), "%.*s",
                   (int)(quoted ? length - 2 : length), etag + (quoted ? 1 : 0));
    return 0;
}

static int copy_whole(const struct copying *copying, struct cv_error *error)
{
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    CV_TRY(cv_s3_request_init(&request, copying->store->client, "PUT", copying->to, error));
    CV_TRY(name_source(copying, &request, error));
    static char path[] = "CopyObjectResult/ETag";
    request.check = check_copied;
    request.opaque = path;
    int result = cv_s3_perform(copying->store->client, &request, error);
    return result && request.answer.status == 412 ? (int)CV_STORE_CHANGED : result;
}

static int copy_part(const struct copying *copying, struct cv_store_parts *parts, size_t part,
                     struct cv_error *error)
{
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    CV_TRY(cv_s3_request_init(&request, copying->store->client, "PUT", copying->to, error));
    CV_TRY(name_source(copying, &request, error));
    int64_t first = (int64_t)part * COPY_PART;
    int64_t end = first + COPY_PART < copying->info.size ? first + COPY_PART : copying->info.size;
    cv_s3_pairs_format(&request.headers, "x-amz-copy-source-range", "bytes=%lld-%lld",
                       (long long)first, (long long)end - 1);
    cv_s3_pairs_format(&request.query, "partNumber", "%zu", part + 1);
    cv_s3_pairs_add(&request.query, "uploadId", parts->upload_id);
    static char path[] = "CopyPartResult/ETag";
    request.check = check_copied;
    request.opaque = path;
    int result = cv_s3_perform(copying->store->client, &request, error);
    if (result) {
        return request.answer.status == 412 ? (int)CV_STORE_CHANGED : result;
    }
    memcpy(parts->items[part].etag, request.answer.etag, CV_STORE_ETAG_SIZE);
    parts->items[part].size = end - first;
    return 0;
}

static int copy_in_parts(const struct copying *copying, struct cv_object_info *ret_info,
                         struct cv_error *error)
{
    cv_auto(cv_store_parts_deinit) struct cv_store_parts parts = {
        .count = (size_t)((copying->info.size + COPY_PART - 1) / COPY_PART)};
    const struct cv_new_object object = {
        .key = copying->to, .sha256 = copying->info.sha256, .metadata = &copying->metadata};
    parts.items = calloc(parts.count, sizeof(*parts.items));
    CV_TRY_MEMORY(parts.items, error, "a copy");
    CV_TRY(cv_s3_multipart_begin(copying->store, &object, &parts.upload_id, error));
    int result = 0;
    for (size_t i = 0; result == 0 && i < parts.count; i++) {
        result = copy_part(copying, &parts, i, error);
    }
    result =
        result ? result : cv_s3_multipart_end(copying->store, copying->to, &parts, ret_info, error);
    if (result) {
        cv_s3_multipart_abort(copying->store, copying->to, parts.upload_id);
    }
    return result;
}

static int copy(const struct copying *copying, struct cv_object_info *ret_info,
                struct cv_error *error)
{
    if (copying->info.size > COPY_MAX) {
        return copy_in_parts(copying, ret_info, error);
    }
    CV_TRY(copy_whole(copying, error));
    int result = cv_s3_head(&copying->store->store, copying->to, ret_info, NULL, error);
    return result == CV_STORE_NOT_FOUND
               ? cv_fail(error, CV_ERROR_CONFLICT, "%s was deleted while it was written",
                         copying->to)
               : result;
}

/* The backend's call. */
static int move(struct cv_store *store, const struct cv_object_move *move,
                struct cv_object_info *ret_info, struct cv_error *error)
{
    cv_auto(copying_deinit) struct copying copying = {
        .store = cv_s3_of(store), .from = move->from, .to = move->to};
    struct cv_object_info after;
    struct cv_object_info copied;
    CV_TRY(cv_s3_head(store, move->from, &copying.info, &copying.metadata, error));
    if (move->if_etag && strcmp(move->if_etag, copying.info.etag) != 0) {
        return CV_STORE_CHANGED;
    }
    CV_TRY(copy(&copying, &copied, error));
    /* An object that was put during the copy must not be lost. */
    int result = cv_s3_head(store, move->from, &after, NULL, error);
    if (result == 0 && strcmp(copying.info.etag, after.etag) != 0) {
        return CV_STORE_CHANGED;
    }
    result = result == 0 ? cv_s3_delete(store, move->from, error) : result;
    if (result < 0) {
        return result;
    }
    *ret_info = copied;
    return 0;
}

enum {
    PRESIGN_SECONDS_MAX = 7 * 24 * 3600, /* limit of Signature Version 4 */
};

bool cv_s3_is_md5(const char *etag)
{
    return strlen(etag) == CV_S3_MD5_SIZE - 1 &&
           strspn(etag, "0123456789abcdefABCDEF") == CV_S3_MD5_SIZE - 1;
}

/* ---- head -------------------------------------------------------------------------------- */

/* Requests the first byte of an object. Initializes `request` in any case. */
static int get_first_byte(struct cv_s3_client *client, const char *key,
                          struct cv_s3_request *request, struct cv_error *error)
{
    enum {
        TEXT_MAX = 64 << 10
    }; /* if a server does not support ranges and sends the whole small object */
    CV_TRY(cv_s3_request_init(request, client, "GET", key, error));
    request->text_limit = TEXT_MAX;
    cv_s3_pairs_add(&request->headers, "range", "bytes=0-0");
    return cv_s3_perform(client, request, error);
}

int cv_s3_confirm_empty(struct cv_store *store, const char *key, struct cv_error *error)
{
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    int result = get_first_byte(cv_s3_of(store)->client, key, &request, error);
    if (request.answer.status == 416) { /* an empty object has no first byte */
        return 0;
    }
    if (result == 0 && request.text.length > 0) {
        return cv_fail(error, CV_ERROR_SERVER,
                       "the store says that %s is empty, and sends bytes of it", key);
    }
    return result;
}

/* The answer to a HEAD has no body with the reason of a refusal: a missing object, a missing
 * bucket, a revoked key and a wrong clock look alike. So this requests the object's first byte.
 * CV_STORE_NOT_FOUND if the object is missing, 0 if it exists. */
static int ask_why(struct cv_s3_client *client, const char *key, struct cv_error *error)
{
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    int result = get_first_byte(client, key, &request, error);
    int status = request.answer.status;
    if (status / 100 == 2 || status == 416) { /* an empty object has no first byte */
        return 0;
    }
    return result && error->type == CV_ERROR_OBJECT_NOT_FOUND ? (int)CV_STORE_NOT_FOUND : result;
}

static int head_once(struct cv_store *store, const char *key, struct cv_object_info *ret_info,
                     struct cv_metadata *metadata, int *ret_status, struct cv_error *error)
{
    struct cv_s3_client *client = cv_s3_of(store)->client;
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    int result = cv_s3_request_init(&request, client, "HEAD", key, error);
    result = result ? result : cv_s3_perform(client, &request, error);
    *ret_status = request.answer.status;
    if (result) {
        return result;
    }
    if (request.answer.content_length < 0) {
        return cv_fail(error, CV_ERROR_SERVER, "HEAD %s: the answer has no length", key);
    }
    cv_s3_answer_info(&request.answer, ret_info);
    if (metadata) {
        *metadata = request.answer.metadata;
        request.answer.metadata = (struct cv_metadata){0};
    }
    return 0;
}

int cv_s3_head(struct cv_store *store, const char *key, struct cv_object_info *ret_info,
               struct cv_metadata *metadata, struct cv_error *error)
{
    int status = 0;
    int result = head_once(store, key, ret_info, metadata, &status, error);
    if (result == 0 || status < 300 || status >= 500 || error->verdict == CV_VERDICT_RETRY) {
        return result;
    }
    struct cv_error reason;
    int asked = ask_why(cv_s3_of(store)->client, key, &reason);
    if (asked < 0) {
        *error = reason;
        return asked;
    }
    if (asked == CV_STORE_NOT_FOUND) {
        return asked;
    }
    return head_once(store, key, ret_info, metadata, &status, error); /* the object exists now */
}

/* ---- delete ---------------------------------------------------------------------------------- */

int cv_s3_delete(struct cv_store *store, const char *key, struct cv_error *error)
{
    struct cv_s3_client *client = cv_s3_of(store)->client;
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    CV_TRY(cv_s3_request_init(&request, client, "DELETE", key, error));
    int result = cv_s3_perform(client, &request, error);
    return result && error->type == CV_ERROR_OBJECT_NOT_FOUND ? 0 : result;
}

struct deletion {
    char key[CV_STORE_KEY_MAX + 1];
    char code[64];
    int failed;
    char first_key[CV_STORE_KEY_MAX + 1];
    char first_code[64];
};

static int read_deletion(void *opaque, const char *path, const char *text, struct cv_error *error)
{
    struct deletion *deletion = opaque;
    (void)error;
    if (strcmp(path, "DeleteResult/Error/Key") == 0) {
        (void)snprintf(deletion->key, sizeof(deletion->key), "%s", text);
    } else if (strcmp(path, "DeleteResult/Error/Code") == 0) {
        (void)snprintf(deletion->code, sizeof(deletion->code), "%s", text);
    } else if (strcmp(path, "DeleteResult/Error") == 0 &&
               strcmp(deletion->code, "NoSuchKey") != 0) {
        if (deletion->failed++ == 0) {
            memcpy(deletion->first_key, deletion->key, sizeof(deletion->key));
            memcpy(deletion->first_code, deletion->code, sizeof(deletion->code));
        }
    }
    return 0;
}

/* Checks the answer: some keys may have failed although others are deleted. Keys that an overloaded
 * server left are tried again with the whole batch, because deleting twice does no harm. */
static int check_deletion(struct cv_s3_request *request, struct cv_error *error)
{
    struct deletion deletion = {.failed = 0};
    CV_TRY(
        cv_s3_xml_read(request->text.data, request->text.length, read_deletion, &deletion, error));
    if (deletion.failed == 0) {
        return 0;
    }
    bool overloaded = strcmp(deletion.first_code, "InternalError") == 0 ||
                      strcmp(deletion.first_code, "SlowDown") == 0;
    bool denied = strcmp(deletion.first_code, "AccessDenied") == 0;
    return cv_fail(error,
                   overloaded ? CV_ERROR_SERVER
                   : denied   ? CV_ERROR_AUTHORIZATION
                              : CV_ERROR_INTERNAL,
                   "%d objects were not deleted, the first is %s: %s", deletion.failed,
                   deletion.first_key, deletion.first_code);
}

/* Sets an XML document as the body of a request. It is borrowed. Some servers require Content-MD5
 * for documents, also where the payload's hash is signed. */
static int set_document(struct cv_s3_request *request, const struct cv_s3_client *client,
                        const char *document, struct cv_error *error)
{
    const struct cv_store_input input = {.data = document, .size = strlen(document), .fd = -1};
    char md5[CV_S3_MD5_SIZE];
    char base64[25];
    CV_TRY(cv_s3_request_body(request, client, &input, md5, error));
    if (!cv_s3_client_config(client)->tls) {
        cv_s3_md5_base64(md5, base64);
        cv_s3_pairs_add(&request->headers, "content-md5", base64);
    }
    cv_s3_pairs_add(&request->headers, "content-type", "application/xml");
    return 0;
}

static int delete_many(struct cv_store *store, const char *const *keys, size_t count,
                       struct cv_error *error)
{
    struct cv_s3_client *client = cv_s3_of(store)->client;
    cv_auto(cv_buffer_deinit) struct cv_buffer body = CV_BUFFER_INIT;
    cv_buffer_text(&body, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                          "<Quiet>true</Quiet>");
    for (size_t i = 0; i < count; i++) {
        cv_buffer_text(&body, "<Object><Key>");
        cv_s3_xml_escape(&body, cv_s3_client_config(client)->prefix);
        cv_s3_xml_escape(&body, keys[i]);
        cv_buffer_text(&body, "</Key></Object>");
    }
    cv_buffer_text(&body, "</Delete>");
    CV_TRY_MEMORY(!body.failed, error, "a deletion");
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    CV_TRY(cv_s3_request_init(&request, client, "POST", NULL, error));
    CV_TRY(set_document(&request, client, body.data, error));
    cv_s3_pairs_add(&request.query, "delete", "");
    request.check = check_deletion;
    return cv_s3_perform(client, &request, error);
}

/* ---- URLs and the bucket --------------------------------------------------------------------- */

static int presign(struct cv_store *store, const struct cv_signed_url *allowed, char **ret_url,
                   struct cv_error *error)
{
    struct cv_s3_client *client = cv_s3_of(store)->client;
    const struct cv_s3_config *config = cv_s3_client_config(client);
    if (strcmp(allowed->method, "GET") != 0 && strcmp(allowed->method, "PUT") != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "URLs are for GET and PUT, not for %s",
                       allowed->method);
    }
    if (allowed->seconds < 1 || allowed->seconds > PRESIGN_SECONDS_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a URL works for 1 to %d seconds",
                       PRESIGN_SECONDS_MAX);
    }
    cv_auto(cv_s3_credentials_deinit) struct cv_s3_credentials credentials = {0};
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs headers = {0};
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs parameters = {0};
    cv_auto_free char *path = NULL;
    cv_auto_free char *query = NULL;
    CV_TRY(cv_s3_identity_get(cv_s3_client_identity(client), &credentials, error));
    CV_TRY(cv_format(&path, error, "%s/%s%s", config->base, config->prefix, allowed->key));
    cv_s3_pairs_add(&headers, "host", config->public_host);
    if (strcmp(allowed->method, "GET") == 0) {
        cv_s3_pairs_add(&parameters, "response-content-type", cv_media_type(allowed->key));
        if (allowed->disposition) {
            cv_s3_pairs_add(&parameters, "response-content-disposition", allowed->disposition);
        }
    }
    if (allowed->part) {
        cv_s3_pairs_format(&headers, "content-length", "%lld", (long long)allowed->part->size);
        cv_s3_pairs_format(&parameters, "partNumber", "%d", allowed->part->number);
        cv_s3_pairs_add(&parameters, "uploadId", allowed->upload_id);
    }
    const struct cv_s3_signing signing = {
        .access_key = credentials.access_key,
        .secret_key = credentials.secret_key,
        .session_token = credentials.session_token,
        .region = config->region,
        .service = "s3",
        .time_s = cv_wall_ms() / 1000,
    };
    const struct cv_s3_message message = {.method = allowed->method,
                                          .path = path,
                                          .query = &parameters,
                                          .headers = &headers,
                                          .payload_hash = CV_S3_UNSIGNED};
    CV_TRY(cv_s3_presign(&signing, &message, allowed->seconds, &query, error));
    cv_auto(cv_buffer_deinit) struct cv_buffer url = CV_BUFFER_INIT;
    cv_buffer_printf(&url, "%s://%s", config->public_scheme, config->public_host);
    cv_percent_encode(&url, path, true);
    cv_buffer_printf(&url, "?%s", query);
    return cv_buffer_detach(&url, ret_url, error);
}

static int bucket_request(struct cv_store *store, const struct cv_bucket_request *asked,
                          struct cv_bucket_answer *ret_answer, struct cv_error *error)
{
    struct cv_s3_client *client = cv_s3_of(store)->client;
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    CV_TRY(cv_s3_request_init(&request, client, asked->method, NULL, error));
    CV_TRY(asked->body ? set_document(&request, client, asked->body, error) : 0);
    if (asked->subresource[0]) {
        cv_s3_pairs_add(&request.query, asked->subresource, "");
    }
    int result = cv_s3_perform(client, &request, error);
    /* An answer without a meaning of its own, such as MalformedXML, is the caller's to judge. */
    bool may_pass =
        result && error->verdict == CV_VERDICT_RETRY && error->type != CV_ERROR_INTERNAL;
    if (request.answer.status == 0 || may_pass) {
        return result;
    }
    struct cv_bucket_answer answer = {.status = request.answer.status};
    CV_TRY(cv_buffer_detach(&request.text, &answer.text, error));
    *ret_answer = answer;
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void close_store(struct cv_store *base)
{
    struct cv_s3_store *store = cv_s3_of(base);
    cv_s3_client_close(store->client);
    free(store->store.name);
    free(store);
}

static void set_cancel(struct cv_store *store, struct cv_cancel *cancel)
{
    cv_s3_client_set_cancel(cv_s3_of(store)->client, cancel);
}

static void set_deadline(struct cv_store *store, int64_t deadline_ms)
{
    cv_s3_client_set_deadline(cv_s3_of(store)->client, deadline_ms);
}

static const struct cv_store_backend backend = {
    .close = close_store,
    .head = cv_s3_head,
    .get_begin = cv_s3_get_begin,
    .get_end = cv_s3_get_end,
    .get_stop = cv_s3_get_stop,
    .open_reader = cv_s3_open_reader,
    .put = cv_s3_put,
    .put_begin = cv_s3_put_begin,
    .put_end = cv_s3_put_end,
    .put_stop = cv_s3_put_stop,
    .delete = cv_s3_delete,
    .delete_many = delete_many,
    .move = move,
    .list = cv_s3_list,
    .presign = presign,
    .parts_find = cv_s3_parts_find,
    .parts_join = cv_s3_parts_join,
    .parts_drop = cv_s3_parts_drop,
    .bucket_request = bucket_request,
    .set_cancel = set_cancel,
    .set_deadline = set_deadline,
};

int cv_s3_store_open(const char *url, struct cv_store **ret_store, struct cv_error *error)
{
    struct cv_s3_store *store = calloc(1, sizeof(*store));
    CV_TRY_MEMORY(store, error, "a store");
    cv_auto(cv_store_close) struct cv_store *base = &store->store;
    base->backend = &backend;
    store->etag_is_md5 = strcmp(cv_env("S3_ETAG_MD5", "on"), "off") != 0;
    struct cv_s3_config config;
    CV_TRY(cv_s3_config_init(&config, url, error));
    size_t prefix_length = strlen(config.prefix);
    int result =
        cv_format(&base->name, error, "s3://%s%s%.*s", config.bucket, prefix_length > 0 ? "/" : "",
                  prefix_length > 0 ? (int)prefix_length - 1 : 0, config.prefix);
    if (result == 0 && prefix_length > 0) {
        char *prefix = strndup(config.prefix, prefix_length - 1);
        result = prefix ? cv_store_check_key(prefix, error)
                        : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a store");
        if (result && prefix) {
            result = cv_fail(error, CV_ERROR_CONFIGURATION, "STORE_URL has an unusable prefix");
        }
        free(prefix);
    }
    result = result ? result : cv_s3_client_open(&config, &store->client, error);
    cv_s3_config_deinit(&config);
    if (result == 0) {
        *ret_store = cv_take(base);
    }
    return result;
}
