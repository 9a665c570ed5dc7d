#include "common/store/s3_metadata.h"
#include "common/store/s3_store.h"

#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

enum {
    READ_SIZE = 1 << 20,
    DIGESTS = 2,
    LOADED_MAX =
        64 << 10, /* a file up to this size is read once, not to be hashed and to be sent */
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

static int digest_file(const struct cv_store_input *input, int64_t offset, size_t size,
                       EVP_MD_CTX *const digests[DIGESTS], struct cv_error *error)
{
    cv_auto_free char *data = malloc(READ_SIZE);
    if (!data) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to read a file");
    }
    for (size_t done = 0; done < size;) {
        size_t wanted = size - done < READ_SIZE ? size - done : READ_SIZE;
        ssize_t got = pread(input->fd, data, wanted, offset + (int64_t)done);
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

int cv_s3_digest(const struct cv_store_input *input, int64_t offset, size_t size, char *sha256,
                 char *md5, struct cv_error *error)
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
    int result = 0;
    if (input->fd >= 0) {
        result = digest_file(input, offset, size, digests, error);
    } else if (size > 0 && !update(digests, (const char *)input->data + offset, size)) {
        result = cv_fail(error, CV_ERROR_INTERNAL, "cannot compute a digest");
    }
    for (int i = 0; result == 0 && i < DIGESTS; i++) {
        unsigned char bytes[EVP_MAX_MD_SIZE];
        unsigned count = 0;
        if (targets[i] && EVP_DigestFinal_ex(digests[i], bytes, &count) != 1) {
            return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute a digest");
        }
        if (targets[i]) {
            cv_s3_hex(bytes, count, targets[i]);
        }
    }
    return result;
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
                       const struct cv_store_input *input, int64_t offset, size_t size,
                       char md5[CV_S3_MD5_SIZE], struct cv_error *error)
{
    request->body_fd = input->fd;
    request->body_size = size;
    if (input->fd >= 0) {
        request->body_offset = offset;
    } else {
        request->body = size > 0 ? (const char *)input->data + offset : NULL;
    }
    bool tls = cv_s3_client_config(client)->tls;
    char own[CV_S3_MD5_SIZE];
    char *target = md5 ? md5 : tls ? own : NULL;
    int result =
        cv_s3_digest(input, offset, size, tls ? NULL : request->payload_hash, target, error);
    if (result == 0 && tls) {
        char base64[25];
        cv_s3_md5_base64(target, base64);
        cv_s3_pairs_add(&request->headers, "content-md5", base64);
        memcpy(request->payload_hash, CV_S3_UNSIGNED, sizeof(CV_S3_UNSIGNED));
    }
    return result;
}

void cv_s3_request_describe(struct cv_s3_request *request, const char *key,
                            const struct cv_put_params *params, const char *sha256)
{
    cv_s3_pairs_add(&request->headers, "content-type",
                    params->content_type ? params->content_type : cv_content_type_of_key(key));
    if (sha256 && sha256[0]) {
        cv_s3_pairs_add(&request->headers, "x-amz-meta-" CV_S3_DIGEST_NAME, sha256);
    }
    for (size_t i = 0; params->metadata && i < params->metadata->count; i++) {
        const struct cv_metadata_entry *entry = &params->metadata->entries[i];
        char name[sizeof("x-amz-meta-") + CV_STORE_METADATA_NAME_MAX];
        (void)snprintf(name, sizeof(name), "x-amz-meta-%s", entry->name);
        cv_auto_free char *value = NULL;
        struct cv_error ignored;
        if (cv_s3_metadata_encode(entry->value, &value, &ignored)) {
            request->headers.failed = true;
            return;
        }
        cv_s3_pairs_add(&request->headers, name, value);
    }
}

/* ---- one request ----------------------------------------------------------------------------- */

struct cv_store_put {
    struct cv_s3_store *store;
    char *key;
    char *content_type;
    bool create_only;
    void *data; /* of a file that was loaded; else NULL */
    char sha256[CV_S3_HASH_SIZE];
    char md5[CV_S3_MD5_SIZE];
    struct cv_s3_request request;
};

static void put_free(struct cv_store_put *put)
{
    cv_s3_request_deinit(&put->request);
    free(put->key);
    free(put->content_type);
    free(put->data);
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

/* The first attempt may have put the object although its answer was lost. */
static int resolve_exists(const struct cv_store_put *put, struct cv_object_info *ret_info,
                          struct cv_error *error)
{
    struct cv_object_info info;
    if (put->request.attempts > 1 &&
        cv_s3_head(&put->store->store, put->key, &info, NULL, error) == 0 &&
        strcasecmp(info.etag, put->md5) == 0) {
        *ret_info = info;
        return 0;
    }
    return CV_STORE_EXISTS;
}

/* Makes a small file a body in memory: one read, one packet. */
static int load_file(struct cv_store_put *put, struct cv_store_input *input, struct cv_error *error)
{
    if (input->fd < 0 || input->size == 0 || input->size > LOADED_MAX) {
        return 0;
    }
    put->data = malloc(input->size);
    if (!put->data) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to put an object");
    }
    for (size_t done = 0; done < input->size;) {
        ssize_t got = pread(input->fd, (char *)put->data + done, input->size - done, (off_t)done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return cv_fail_errno(error, got < 0 ? errno : ENODATA, "read the file to be stored");
        }
        done += (size_t)got;
    }
    *input = (struct cv_store_input){.data = put->data, .size = input->size, .fd = -1};
    return 0;
}

/* Digests of the body; it is whole already when it is hashed for the signature. */
static int digest_body(struct cv_store_put *put, const struct cv_store_input *input,
                       const struct cv_put_params *params, struct cv_error *error)
{
    struct cv_s3_client *client = put->store->client;
    int result = cv_s3_request_body(&put->request, client, input, 0, input->size, put->md5, error);
    if (result == 0 && cv_s3_client_config(client)->tls) {
        result = cv_s3_digest(input, 0, input->size, put->sha256, NULL, error);
    } else if (result == 0) {
        memcpy(put->sha256, put->request.payload_hash, sizeof(put->sha256));
    }
    if (result == 0 && params->sha256 && strcmp(params->sha256, put->sha256) != 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "the bytes for %s have SHA-256 %s, not %s",
                       put->key, put->sha256, params->sha256);
    }
    return result;
}

static int begin_put(struct cv_store *store, const char *key, const struct cv_store_input *input,
                     const struct cv_put_params *params, bool create_only,
                     struct cv_store_put **ret_put, struct cv_error *error)
{
    cv_auto(put_free) struct cv_store_put *put = calloc(1, sizeof(*put));
    if (!put) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to put an object");
    }
    put->store = cv_s3_of(store);
    put->create_only = create_only;
    struct cv_s3_client *client = put->store->client;
    const char *type = params->content_type ? params->content_type : cv_content_type_of_key(key);
    int result = cv_s3_request_init(&put->request, client, "PUT", key, error);
    result = result ? result : cv_format(&put->key, error, "%s", key);
    result = result ? result : cv_format(&put->content_type, error, "%s", type);
    struct cv_store_input body = *input;
    result = result ? result : load_file(put, &body, error);
    result = result ? result : digest_body(put, &body, params, error);
    if (result) {
        return result;
    }
    cv_s3_request_describe(&put->request, key, params, put->sha256);
    if (create_only) {
        cv_s3_pairs_add(&put->request.headers, "if-none-match", "*");
    }
    put->request.check = check_etag;
    put->request.opaque = put;
    result = cv_s3_start(client, &put->request, error);
    if (result == 0) {
        *ret_put = cv_take(put);
    }
    return result;
}

static int end_put(struct cv_store_put *put, struct cv_object_info *ret_info,
                   struct cv_error *error)
{
    struct cv_s3_request *request = &put->request;
    int result = cv_s3_finish(put->store->client, request, error);
    if (result) {
        return put->create_only && request->answer.status == 412
                   ? resolve_exists(put, ret_info, error)
                   : result;
    }
    request->answer.content_length = (int64_t)request->body_size;
    request->answer.modified_ms = request->answer.date_ms;
    cv_s3_answer_info(&request->answer, put->key, ret_info);
    memcpy(ret_info->sha256, put->sha256, sizeof(ret_info->sha256));
    (void)snprintf(ret_info->content_type, sizeof(ret_info->content_type), "%s", put->content_type);
    return 0;
}

static int put_once(struct cv_store *store, const char *key, const struct cv_store_input *input,
                    const struct cv_put_params *params, bool create_only,
                    struct cv_object_info *ret_info, int *ret_status, struct cv_error *error)
{
    cv_auto(put_free) struct cv_store_put *put = NULL;
    int result = begin_put(store, key, input, params, create_only, &put, error);
    result = result ? result : end_put(put, ret_info, error);
    *ret_status = put ? put->request.answer.status : 0;
    return result;
}

int cv_s3_put_begin(struct cv_store *store, const char *key, const struct cv_store_input *input,
                    const struct cv_put_params *params, struct cv_store_put **ret_put,
                    struct cv_error *error)
{
    if (input->size >= CV_S3_MULTIPART_FROM) {
        *ret_put = NULL;
        return 0;
    }
    return begin_put(store, key, input, params, false, ret_put, error);
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

int cv_s3_put(struct cv_store *store, const char *key, const struct cv_store_input *input,
              const struct cv_put_params *params, struct cv_object_info *ret_info,
              struct cv_error *error)
{
    bool create_only = params->create_only;
    if (input->size >= CV_S3_MULTIPART_FROM) {
        struct cv_object_info info;
        int result =
            create_only ? cv_s3_head(store, key, &info, NULL, error) : (int)CV_STORE_NOT_FOUND;
        return result == 0 ? (int)CV_STORE_EXISTS
               : result == CV_STORE_NOT_FOUND
                   ? cv_s3_put_multipart(store, key, input, params, ret_info, error)
                   : result;
    }
    int status = 0;
    int result = put_once(store, key, input, params, create_only, ret_info, &status, error);
    if (result < 0 && create_only && status == 501) {
        /* This server does not know the condition: looked first, nearly as good. */
        struct cv_object_info info;
        result = cv_s3_head(store, key, &info, NULL, error);
        result = result == 0 ? (int)CV_STORE_EXISTS
                 : result == CV_STORE_NOT_FOUND
                     ? put_once(store, key, input, params, false, ret_info, &status, error)
                     : result;
    }
    return result;
}
