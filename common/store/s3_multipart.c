#include "common/store/s3_store.h"
#include "common/store/s3_xml.h"

#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

/* Parts under way at once. They are read from the file as they are sent, so that this costs no
 * memory. */
enum { PARTS_AT_ONCE = 6, UPLOAD_ID_SIZE = 1024 };

/* ---- beginning and end ----------------------------------------------------------------------- */

static int check_upload_id(struct cv_s3_request *request, struct cv_error *error)
{
    char id[UPLOAD_ID_SIZE];
    int result = cv_s3_xml_find(request->text.data, request->text.length,
                                "InitiateMultipartUploadResult/UploadId", id, sizeof(id), error);
    return result || id[0]
               ? result
               : cv_fail(error, CV_ERROR_CONNECTION, "the server's answer has no upload id");
}

int cv_s3_multipart_begin(struct cv_s3_store *store, const char *key,
                          const struct cv_put_params *params, const char *sha256,
                          char **ret_upload_id, struct cv_error *error)
{
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    int result = cv_s3_request_init(&request, store->client, "POST", key, error);
    if (result) {
        return result;
    }
    cv_s3_pairs_add(&request.query, "uploads", "");
    cv_s3_request_describe(&request, key, params, sha256);
    request.check = check_upload_id;
    result = cv_s3_perform(store->client, &request, error);
    char id[UPLOAD_ID_SIZE];
    result = result
                 ? result
                 : cv_s3_xml_find(request.text.data, request.text.length,
                                  "InitiateMultipartUploadResult/UploadId", id, sizeof(id), error);
    return result ? result : cv_format(ret_upload_id, error, "%s", id);
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

/* An error may come with status 200, when joining the parts failed late. The ETag in this answer is
 * not relied on: not every server fills it in. */
static int check_joined(struct cv_s3_request *request, struct cv_error *error)
{
    char code[64];
    int result = cv_s3_xml_find(request->text.data, request->text.length, "Error/Code", code,
                                sizeof(code), error);
    return result || !code[0] ? result
                              : cv_fail(error, CV_ERROR_SERVER,
                                        "the object store cannot join the parts: %s", code);
}

/* "MD5 of the parts' MD5s - count", as far as the parts' ETags are MD5s; "" else. */
static void joined_etag(char (*etags)[CV_STORE_ETAG_SIZE], int count, char etag[CV_STORE_ETAG_SIZE])
{
    cv_auto(cv_buffer_deinit) struct cv_buffer bytes = CV_BUFFER_INIT;
    etag[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (!cv_s3_is_md5(etags[i])) {
            return;
        }
        for (int k = 0; k < CV_S3_MD5_SIZE - 1; k += 2) {
            char pair[3] = {etags[i][k], etags[i][k + 1], '\0'};
            unsigned char byte = (unsigned char)strtol(pair, NULL, 16);
            cv_buffer_append(&bytes, &byte, 1);
        }
    }
    char md5[CV_S3_MD5_SIZE];
    struct cv_error ignored;
    const struct cv_store_input input = {.data = bytes.data, .fd = -1};
    if (!bytes.failed && cv_s3_digest(&input, 0, bytes.length, NULL, md5, &ignored) == 0) {
        (void)snprintf(etag, CV_STORE_ETAG_SIZE, "%s-%d", md5, count);
    }
}

static int join(struct cv_s3_store *store, const char *key, const char *upload_id,
                char (*etags)[CV_STORE_ETAG_SIZE], int count, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer body = CV_BUFFER_INIT;
    cv_buffer_text(&body, "<CompleteMultipartUpload "
                          "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (int i = 0; i < count; i++) {
        cv_buffer_printf(&body, "<Part><PartNumber>%d</PartNumber><ETag>&quot;", i + 1);
        cv_s3_xml_escape(&body, etags[i]);
        cv_buffer_text(&body, "&quot;</ETag></Part>");
    }
    cv_buffer_text(&body, "</CompleteMultipartUpload>");
    if (body.failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to end an upload");
    }
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    int result = cv_s3_request_init(&request, store->client, "POST", key, error);
    const struct cv_store_input input = {.data = body.data, .size = body.length, .fd = -1};
    result = result
                 ? result
                 : cv_s3_request_body(&request, store->client, &input, 0, body.length, NULL, error);
    if (result) {
        return result;
    }
    cv_s3_pairs_add(&request.query, "uploadId", upload_id);
    cv_s3_pairs_add(&request.headers, "content-type", "application/xml");
    request.check = check_joined;
    request.stall_timeout_s = CV_S3_SLOW_STALL_S;
    return cv_s3_perform(store->client, &request, error);
}

int cv_s3_multipart_end(struct cv_s3_store *store, const char *key, const char *upload_id,
                        char (*etags)[CV_STORE_ETAG_SIZE], int count, int64_t size,
                        struct cv_object_info *ret_info, struct cv_error *error)
{
    char expected[CV_STORE_ETAG_SIZE];
    joined_etag(etags, count, expected);
    int joined = join(store, key, upload_id, etags, count, error);
    struct cv_error other;
    struct cv_object_info info;
    int result = joined == 0 || error->type == CV_ERROR_OBJECT_NOT_FOUND
                     ? cv_s3_head(&store->store, key, &info, NULL, &other)
                     : 1;
    /* The joined ETag is S3's custom, not its promise: another form says nothing. */
    bool is_other = result == 0 && store->etag_is_md5 && expected[0] && strchr(info.etag, '-') &&
                    strcasecmp(info.etag, expected) != 0;
    bool is_ours = result == 0 && info.size == size && !is_other;
    /* An upload that is not known any more: the answer to an earlier attempt was lost, if the
     * object is the one that we have sent. */
    if (joined && !(is_ours && expected[0] && strcasecmp(info.etag, expected) == 0)) {
        return joined;
    }
    if (result < 0) {
        *error = other;
        return result;
    }
    if (!is_ours) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s was put by somebody else at the same time",
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
    const char *id;
    size_t part_size;
    int count;
    char (*etags)[CV_STORE_ETAG_SIZE];
    struct cv_s3_request requests[PARTS_AT_ONCE]; /* part i in slot i mod PARTS_AT_ONCE */
    int started, finished;                        /* parts */
};

static int check_part(struct cv_s3_request *request, struct cv_error *error)
{
    return request->answer.etag[0]
               ? 0
               : cv_fail(error, CV_ERROR_CONNECTION, "the server's answer has no ETag");
}

static int start_part(struct upload *upload, struct cv_error *error)
{
    int part = upload->started;
    struct cv_s3_request *request = &upload->requests[part % PARTS_AT_ONCE];
    int64_t offset = (int64_t)part * (int64_t)upload->part_size;
    size_t left = upload->input->size - (size_t)offset;
    int result = cv_s3_request_init(request, upload->store->client, "PUT", upload->key, error);
    if (result) {
        return result;
    }
    cv_s3_pairs_format(&request->query, "partNumber", "%d", part + 1);
    cv_s3_pairs_add(&request->query, "uploadId", upload->id);
    request->check = check_part;
    result = cv_s3_request_body(request, upload->store->client, upload->input, offset,
                                left < upload->part_size ? left : upload->part_size, NULL, error);
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
    int part = upload->finished;
    struct cv_s3_request *request = &upload->requests[part % PARTS_AT_ONCE];
    int result = cv_s3_finish(upload->store->client, request, error);
    if (result == 0) {
        memcpy(upload->etags[part], request->answer.etag, CV_STORE_ETAG_SIZE);
    }
    cv_s3_request_deinit(request);
    upload->finished++;
    return result;
}

static int send_parts(struct upload *upload, struct cv_error *error)
{
    int result = 0;
    while (result == 0 && upload->finished < upload->count) {
        bool room = upload->started - upload->finished < PARTS_AT_ONCE;
        result = room && upload->started < upload->count ? start_part(upload, error)
                                                         : finish_part(upload, error);
    }
    for (; upload->finished < upload->started; upload->finished++) {
        struct cv_s3_request *request = &upload->requests[upload->finished % PARTS_AT_ONCE];
        cv_s3_cancel(upload->store->client, request);
        cv_s3_request_deinit(request);
    }
    return result;
}

/* A file that is changed while it is sent has parts of two versions: whoever gave a digest is told.
 */
static int check_digest(const char *key, const struct cv_store_input *input, const char *expected,
                        struct cv_error *error)
{
    char sha256[CV_S3_HASH_SIZE];
    int result = expected ? cv_s3_digest(input, 0, input->size, sha256, NULL, error) : 0;
    if (result == 0 && expected && strcmp(expected, sha256) != 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "the bytes for %s have SHA-256 %s, not %s", key,
                       sha256, expected);
    }
    return result;
}

int cv_s3_put_multipart(struct cv_store *store, const char *key, const struct cv_store_input *input,
                        const struct cv_put_params *params, struct cv_object_info *ret_info,
                        struct cv_error *error)
{
    static const size_t unit = 1 << 20;
    size_t least = (input->size / CV_S3_PARTS_MAX / unit + 1) * unit;
    struct upload upload = {
        .store = cv_s3_of(store),
        .key = key,
        .input = input,
        .part_size = least > CV_S3_PART_SIZE ? least : CV_S3_PART_SIZE,
    };
    upload.count = (int)((input->size + upload.part_size - 1) / upload.part_size);
    cv_auto_free void *etags = calloc((size_t)upload.count, sizeof(upload.etags[0]));
    if (!etags) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for an upload");
    }
    upload.etags = etags;
    cv_auto_free char *id = NULL;
    int result = check_digest(key, input, params->sha256, error);
    result = result ? result
                    : cv_s3_multipart_begin(upload.store, key, params, params->sha256, &id, error);
    if (result) {
        return result;
    }
    upload.id = id;
    result = send_parts(&upload, error);
    result = result ? result
                    : cv_s3_multipart_end(upload.store, key, id, upload.etags, upload.count,
                                          (int64_t)input->size, ret_info, error);
    if (result) {
        cv_s3_multipart_abort(upload.store, key, id);
    }
    return result;
}
