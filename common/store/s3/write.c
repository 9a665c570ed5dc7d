#include "common/store/s3/write.h"

#include "common/store/s3/answer.h"

#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

enum {
    READ_SIZE = 1 << 20,
    DIGESTS = 2,
};

CV_DEFINE_CLEANUP(EVP_MD_CTX *, EVP_MD_CTX_free)

/* ---- digests --------------------------------------------------------------------------------- */

static bool update(EVP_MD_CTX *const digests[DIGESTS], const void *data, size_t size)
{
    bool good = true;
    for (int i = 0; i < DIGESTS; i++) {
        good = good && (!digests[i] || EVP_DigestUpdate(digests[i], data, size) == 1);
    }
    return good;
}

static int digest_file(const struct cv_store_input *input, EVP_MD_CTX *const digests[DIGESTS],
                       struct cv_error *error)
{
    cv_auto_free char *data = malloc(READ_SIZE);
    if (!data) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to read a file");
    }
    for (size_t done = 0; done < input->size;) {
        size_t wanted = input->size - done < READ_SIZE ? input->size - done : READ_SIZE;
        ssize_t got = pread(input->fd, data, wanted, input->offset + (int64_t)done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return cv_fail_errno(error, got < 0 ? errno : ENODATA, "read the file to be stored");
        }
        if (!update(digests, data, (size_t)got)) {
            return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute a digest");
        }
        done += (size_t)got;
    }
    return 0;
}

int cv_s3_digest(const struct cv_store_input *input, char *sha256, char *md5,
                 struct cv_error *error)
{
    cv_auto(EVP_MD_CTX_free) EVP_MD_CTX *first = sha256 ? EVP_MD_CTX_new() : NULL;
    cv_auto(EVP_MD_CTX_free) EVP_MD_CTX *second = md5 ? EVP_MD_CTX_new() : NULL;
    EVP_MD_CTX *const digests[DIGESTS] = {first, second};
    char *const targets[DIGESTS] = {sha256, md5};
    const EVP_MD *const kinds[DIGESTS] = {EVP_sha256(), EVP_md5()};
    for (int i = 0; i < DIGESTS; i++) {
        if (targets[i] && (!digests[i] || EVP_DigestInit_ex(digests[i], kinds[i], NULL) != 1)) {
            return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute a digest");
        }
    }
    if (input->fd >= 0) {
        CV_TRY(digest_file(input, digests, error));
    } else if (input->size > 0 && !update(digests, input->data, input->size)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute a digest");
    }
    for (int i = 0; i < DIGESTS; i++) {
        unsigned char bytes[EVP_MAX_MD_SIZE];
        unsigned count = 0;
        if (targets[i] && EVP_DigestFinal_ex(digests[i], bytes, &count) != 1) {
            return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute a digest");
        }
        if (targets[i]) {
            cv_hex(bytes, count, targets[i]);
        }
    }
    return 0;
}

void cv_s3_md5_base64(const char *md5_hex, char base64[25])
{
    unsigned char bytes[16];
    for (int i = 0; i < 16; i++) {
        char pair[3] = {md5_hex[i * 2], md5_hex[i * 2 + 1], '\0'};
        bytes[i] = (unsigned char)strtol(pair, NULL, 16);
    }
    (void)EVP_EncodeBlock((unsigned char *)base64, bytes, sizeof(bytes));
}

/* ---- what a put sends ------------------------------------------------------------------------ */

int cv_s3_request_body(struct cv_s3_request *request, const struct cv_s3_client *client,
                       const struct cv_store_input *input, char md5[CV_S3_MD5_SIZE],
                       struct cv_error *error)
{
    request->body_fd = input->fd;
    request->body_size = input->size;
    request->body_offset = input->offset;
    request->body = input->data;
    bool tls = cv_s3_client_config(client)->tls;
    char own[CV_S3_MD5_SIZE];
    char *target = md5 ? md5 : tls ? own : NULL;
    CV_TRY(cv_s3_digest(input, tls ? NULL : request->payload_hash, target, error));
    if (tls) {
        char base64[25];
        cv_s3_md5_base64(target, base64);
        cv_s3_pairs_add(&request->headers, "content-md5", base64);
        memcpy(request->payload_hash, CV_S3_UNSIGNED, sizeof(CV_S3_UNSIGNED));
    }
    return 0;
}

/* Sets type and metadata of a new object as headers. */
static int describe(struct cv_s3_request *request, const struct cv_new_object *object,
                    const char *sha256, struct cv_error *error)
{
    if (object->create_only) { /* not every server has If-None-Match */
        return cv_fail(error, CV_ERROR_INTERNAL,
                       "%s cannot be stored with create_only: only a directory can", object->key);
    }
    cv_s3_pairs_add(&request->headers, "content-type", cv_media_type(object->key));
    if (sha256 && sha256[0]) {
        cv_s3_pairs_add(&request->headers, "x-amz-meta-" CV_S3_DIGEST_NAME, sha256);
    }
    for (size_t i = 0; object->metadata && i < object->metadata->count; i++) {
        const struct cv_metadata_entry *entry = &object->metadata->entries[i];
        char name[sizeof("x-amz-meta-") + CV_STORE_METADATA_NAME_MAX];
        (void)snprintf(name, sizeof(name), "x-amz-meta-%s", entry->name);
        cv_auto_free char *value = NULL;
        CV_TRY(cv_s3_metadata_encode(entry->value, &value, error));
        cv_s3_pairs_add(&request->headers, name, value);
    }
    return 0;
}

/* ---- one request ----------------------------------------------------------------------------- */

struct cv_store_put {
    struct cv_s3_store *store;
    char sha256[CV_S3_HASH_SIZE];
    char md5[CV_S3_MD5_SIZE];
    struct cv_s3_request request;
};

static void put_free(struct cv_store_put *put)
{
    cv_s3_request_deinit(&put->request);
    free(put);
}
CV_DEFINE_CLEANUP(struct cv_store_put *, put_free)

static int check_etag(struct cv_s3_request *request, struct cv_error *error)
{
    const struct cv_store_put *put = request->opaque;
    const struct cv_s3_answer *answer = &request->answer;
    if (!put->store->etag_is_md5 || answer->etag_is_no_md5 || !cv_s3_is_md5(answer->etag) ||
        strcasecmp(answer->etag, put->md5) == 0) {
        return 0;
    }
    return cv_fail(error, CV_ERROR_CONNECTION,
                   "the bytes were damaged on their way: MD5 %s, ETag %s", put->md5, answer->etag);
}

/* Calculates the digests of the body. If the signature needs the hash, the whole body is hashed
 * before. */
static int digest_body(struct cv_store_put *put, const struct cv_store_input *input,
                       const char *expected, struct cv_error *error)
{
    struct cv_s3_client *client = put->store->client;
    int result = cv_s3_request_body(&put->request, client, input, put->md5, error);
    if (result == 0 && cv_s3_client_config(client)->tls) {
        result = cv_s3_digest(input, put->sha256, NULL, error);
    } else if (result == 0) {
        memcpy(put->sha256, put->request.payload_hash, sizeof(put->sha256));
    }
    if (result == 0 && expected && strcmp(expected, put->sha256) != 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "the bytes for %s have SHA-256 %s, not %s",
                       put->request.key, put->sha256, expected);
    }
    return result;
}

static int begin_put(struct cv_store *store, const struct cv_new_object *object,
                     const struct cv_store_input *input, struct cv_store_put **ret_put,
                     struct cv_error *error)
{
    cv_auto(put_free) struct cv_store_put *put = calloc(1, sizeof(*put));
    if (!put) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to put an object");
    }
    put->store = cv_s3_of(store);
    struct cv_s3_client *client = put->store->client;
    CV_TRY(cv_s3_request_init(&put->request, client, "PUT", object->key, error));
    CV_TRY(digest_body(put, input, object->sha256, error));
    CV_TRY(describe(&put->request, object, put->sha256, error));
    put->request.check = check_etag;
    put->request.opaque = put;
    CV_TRY(cv_s3_start(client, &put->request, error));
    *ret_put = cv_take(put);
    return 0;
}

static int end_put(struct cv_store_put *put, struct cv_object_info *ret_info,
                   struct cv_error *error)
{
    struct cv_s3_request *request = &put->request;
    CV_TRY(cv_s3_finish(put->store->client, request, error));
    request->answer.content_length = (int64_t)request->body_size;
    request->answer.modified_ms = request->answer.date_ms;
    cv_s3_answer_info(&request->answer, ret_info);
    memcpy(ret_info->sha256, put->sha256, sizeof(ret_info->sha256));
    return 0;
}

int cv_s3_put_begin(struct cv_store *store, const struct cv_new_object *object,
                    const struct cv_store_input *input, struct cv_store_put **ret_put,
                    struct cv_error *error)
{
    *ret_put = NULL;
    return input->size < CV_S3_MULTIPART_FROM ? begin_put(store, object, input, ret_put, error) : 0;
}

int cv_s3_put_end(struct cv_store_put *put, struct cv_object_info *ret_info, struct cv_error *error)
{
    int result = end_put(put, ret_info, error);
    put_free(put);
    return result;
}

void cv_s3_put_stop(struct cv_store_put *put)
{
    cv_s3_cancel(put->store->client, &put->request);
    put_free(put);
}

/* Parts under way at once. They are read from the file while they are sent, so they take no memory. */
enum { PARTS_AT_ONCE = 6, UPLOAD_ID_SIZE = 1024 };

/* ---- beginning and end ----------------------------------------------------------------------- */

static int check_upload_id(struct cv_s3_request *request, struct cv_error *error)
{
    char id[UPLOAD_ID_SIZE];
    CV_TRY(cv_s3_xml_find(request->text.data, request->text.length,
                          "InitiateMultipartUploadResult/UploadId", id, sizeof(id), error));
    return id[0] ? 0 : cv_fail(error, CV_ERROR_CONNECTION, "the server's answer has no upload id");
}

int cv_s3_multipart_begin(struct cv_s3_store *store, const struct cv_new_object *object,
                          char **ret_upload_id, struct cv_error *error)
{
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    CV_TRY(cv_s3_request_init(&request, store->client, "POST", object->key, error));
    cv_s3_pairs_add(&request.query, "uploads", "");
    CV_TRY(describe(&request, object, object->sha256, error));
    request.check = check_upload_id;
    CV_TRY(cv_s3_perform(store->client, &request, error));
    char id[UPLOAD_ID_SIZE];
    CV_TRY(cv_s3_xml_find(request.text.data, request.text.length,
                          "InitiateMultipartUploadResult/UploadId", id, sizeof(id), error));
    return cv_format(ret_upload_id, error, "%s", id);
}

void cv_s3_multipart_abort(struct cv_s3_store *store, const char *key, const char *upload_id)
{
    struct cv_error error;
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    int result = cv_s3_request_init(&request, store->client, "DELETE", key, &error);
    cv_s3_pairs_add(&request.query, "uploadId", upload_id);
    result = result ? result : cv_s3_perform(store->client, &request, &error);
    if (result) {
        cv_log(CV_LOG_DEBUG, "cannot abort the upload of %s, ignoring: %s", key, error.message);
    }
}

/* Checks the answer: an error may have status 200 if joining failed late. The ETag in this answer
 * is not used, because not every server sends it. */
static int check_joined(struct cv_s3_request *request, struct cv_error *error)
{
    char code[64];
    CV_TRY(cv_s3_xml_find(request->text.data, request->text.length, "Error/Code", code,
                          sizeof(code), error));
    return !code[0] ? 0
                    : cv_fail(error, CV_ERROR_SERVER, "the object store cannot join the parts: %s",
                              code);
}

/* Calculates "MD5 of the parts' MD5s - count" if the parts' ETags are MD5s; else "". */
static void joined_etag(const struct cv_store_parts *parts, char etag[CV_STORE_ETAG_SIZE])
{
    cv_auto(cv_buffer_deinit) struct cv_buffer bytes = CV_BUFFER_INIT;
    etag[0] = '\0';
    for (size_t i = 0; i < parts->count; i++) {
        const char *part = parts->items[i].etag;
        if (!cv_s3_is_md5(part)) {
            return;
        }
        for (int k = 0; k < CV_S3_MD5_SIZE - 1; k += 2) {
            char pair[3] = {part[k], part[k + 1], '\0'};
            unsigned char byte = (unsigned char)strtol(pair, NULL, 16);
            cv_buffer_append(&bytes, &byte, 1);
        }
    }
    char md5[CV_S3_MD5_SIZE];
    struct cv_error ignored;
    const struct cv_store_input input = {.data = bytes.data, .size = bytes.length, .fd = -1};
    if (!bytes.failed && cv_s3_digest(&input, NULL, md5, &ignored) == 0) {
        (void)snprintf(etag, CV_STORE_ETAG_SIZE, "%s-%zu", md5, parts->count);
    }
}

static int join(struct cv_s3_store *store, const char *key, const struct cv_store_parts *parts,
                struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer body = CV_BUFFER_INIT;
    cv_buffer_text(&body, "<CompleteMultipartUpload "
                          "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (size_t i = 0; i < parts->count; i++) {
        cv_buffer_printf(&body, "<Part><PartNumber>%zu</PartNumber><ETag>&quot;", i + 1);
        cv_s3_xml_escape(&body, parts->items[i].etag);
        cv_buffer_text(&body, "&quot;</ETag></Part>");
    }
    cv_buffer_text(&body, "</CompleteMultipartUpload>");
    if (body.failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to end an upload");
    }
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    CV_TRY(cv_s3_request_init(&request, store->client, "POST", key, error));
    const struct cv_store_input input = {.data = body.data, .size = body.length, .fd = -1};
    CV_TRY(cv_s3_request_body(&request, store->client, &input, NULL, error));
    cv_s3_pairs_add(&request.query, "uploadId", parts->upload_id);
    cv_s3_pairs_add(&request.headers, "content-type", "application/xml");
    request.check = check_joined;
    request.stall_timeout_s = CV_S3_SLOW_STALL_S;
    return cv_s3_perform(store->client, &request, error);
}

int cv_s3_multipart_end(struct cv_s3_store *store, const char *key,
                        const struct cv_store_parts *parts, struct cv_object_info *ret_info,
                        struct cv_error *error)
{
    char expected[CV_STORE_ETAG_SIZE];
    int64_t size = 0;
    for (size_t i = 0; i < parts->count; i++) {
        size += parts->items[i].size;
    }
    joined_etag(parts, expected);
    int joined = join(store, key, parts, error);
    struct cv_error other;
    struct cv_object_info info;
    int result = joined == 0 || error->type == CV_ERROR_OBJECT_NOT_FOUND
                     ? cv_s3_head(&store->store, key, &info, NULL, &other)
                     : 1;
    /* S3 does not guarantee the form of the joined ETag: another form proves nothing. */
    bool is_other = result == 0 && store->etag_is_md5 && expected[0] && strchr(info.etag, '-') &&
                    strcasecmp(info.etag, expected) != 0;
    bool is_ours = result == 0 && info.size == size && !is_other;
    /* If the upload is unknown, an earlier attempt has joined it and its answer was lost, provided
     * that the object is the one that was sent. */
    if (joined && !(is_ours && expected[0] && strcasecmp(info.etag, expected) == 0)) {
        return joined;
    }
    if (result < 0) {
        *error = other;
        return result;
    }
    if (!is_ours) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s was stored by another client at the same time",
                       key);
    }
    *ret_info = info;
    return 0;
}

/* ---- parts ----------------------------------------------------------------------------------- */

struct upload {
    struct cv_s3_store *store;
    const char *key;
    const struct cv_store_input *input;
    size_t part_size;
    struct cv_store_parts parts;
    struct cv_s3_request requests[PARTS_AT_ONCE]; /* part i uses slot i mod PARTS_AT_ONCE */
    size_t started, finished;                     /* parts */
};

static int check_part(struct cv_s3_request *request, struct cv_error *error)
{
    return request->answer.etag[0]
               ? 0
               : cv_fail(error, CV_ERROR_CONNECTION, "the server's answer has no ETag");
}

static int start_part(struct upload *upload, struct cv_error *error)
{
    size_t part = upload->started, before = part * upload->part_size;
    size_t left = upload->input->size - before;
    const struct cv_store_input *whole = upload->input;
    const struct cv_store_input input = {
        .data = whole->data ? (const char *)whole->data + before : NULL,
        .size = left < upload->part_size ? left : upload->part_size,
        .fd = whole->fd,
        .offset = whole->offset + (int64_t)before,
    };
    struct cv_s3_request *request = &upload->requests[part % PARTS_AT_ONCE];
    CV_TRY(cv_s3_request_init(request, upload->store->client, "PUT", upload->key, error));
    cv_s3_pairs_format(&request->query, "partNumber", "%zu", part + 1);
    cv_s3_pairs_add(&request->query, "uploadId", upload->parts.upload_id);
    request->check = check_part;
    upload->parts.items[part].size = (int64_t)input.size;
    int result = cv_s3_request_body(request, upload->store->client, &input, NULL, error);
    result = result ? result : cv_s3_start(upload->store->client, request, error);
    if (result) {
        cv_s3_request_deinit(request);
        return result;
    }
    upload->started++;
    return 0;
}

static int finish_part(struct upload *upload, struct cv_error *error)
{
    size_t part = upload->finished;
    struct cv_s3_request *request = &upload->requests[part % PARTS_AT_ONCE];
    int result = cv_s3_finish(upload->store->client, request, error);
    if (result == 0) {
        memcpy(upload->parts.items[part].etag, request->answer.etag, CV_STORE_ETAG_SIZE);
    }
    cv_s3_request_deinit(request);
    upload->finished++;
    return result;
}

static int send_parts(struct upload *upload, struct cv_error *error)
{
    int result = 0;
    while (result == 0 && upload->finished < upload->parts.count) {
        bool room = upload->started - upload->finished < PARTS_AT_ONCE;
        result = room && upload->started < upload->parts.count ? start_part(upload, error)
                                                               : finish_part(upload, error);
    }
    for (; upload->finished < upload->started; upload->finished++) {
        struct cv_s3_request *request = &upload->requests[upload->finished % PARTS_AT_ONCE];
        cv_s3_cancel(upload->store->client, request);
        cv_s3_request_deinit(request);
    }
    return result;
}

/* A file that changes while it is sent has parts of two versions; if the caller gave a digest, this
 * is noticed here. */
static int check_digest(const struct cv_new_object *object, const struct cv_store_input *input,
                        struct cv_error *error)
{
    char sha256[CV_S3_HASH_SIZE];
    CV_TRY(object->sha256 ? cv_s3_digest(input, sha256, NULL, error) : 0);
    if (object->sha256 && strcmp(object->sha256, sha256) != 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "the bytes for %s have SHA-256 %s, not %s",
                       object->key, sha256, object->sha256);
    }
    return 0;
}

static int put_multipart(struct cv_store *store, const struct cv_new_object *object,
                         const struct cv_store_input *input, struct cv_object_info *ret_info,
                         struct cv_error *error)
{
    static const size_t unit = 1 << 20;
    size_t least = (input->size / CV_S3_PARTS_MAX / unit + 1) * unit;
    struct upload upload = {
        .store = cv_s3_of(store),
        .key = object->key,
        .input = input,
        .part_size = least > CV_S3_PART_SIZE ? least : CV_S3_PART_SIZE,
    };
    cv_auto(cv_store_parts_deinit) struct cv_store_parts parts = {
        .count = (input->size + upload.part_size - 1) / upload.part_size};
    parts.items = calloc(parts.count, sizeof(*parts.items));
    CV_TRY_MEMORY(parts.items, error, "an upload");
    CV_TRY(check_digest(object, input, error));
    CV_TRY(cv_s3_multipart_begin(upload.store, object, &parts.upload_id, error));
    upload.parts = parts;
    int result = send_parts(&upload, error);
    result =
        result ? result : cv_s3_multipart_end(upload.store, object->key, &parts, ret_info, error);
    if (result) {
        cv_s3_multipart_abort(upload.store, object->key, parts.upload_id);
    }
    return result;
}

/* ---- the backend's put ----------------------------------------------------------------------- */

int cv_s3_put(struct cv_store *store, const struct cv_new_object *object,
              const struct cv_store_input *input, struct cv_object_info *ret_info,
              struct cv_error *error)
{
    if (input->size >= CV_S3_MULTIPART_FROM) {
        return put_multipart(store, object, input, ret_info, error);
    }
    cv_auto(put_free) struct cv_store_put *put = NULL;
    CV_TRY(begin_put(store, object, input, &put, error));
    return end_put(put, ret_info, error);
}
