#include "common/store/s3/copy.h"

#include "common/store/s3/write.h"
#include "common/store/s3/xml.h"

#include <string.h>

/* One request copies at most 5 GiB; a larger object goes in parts of this size. */
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

/* "/bucket/encoded%20key", and only while it is the object that was looked at. */
static int name_source(const struct copying *copying, struct cv_s3_request *request,
                       struct cv_error *error)
{
    const struct cv_s3_config *config = cv_s3_client_config(copying->store->client);
    cv_auto(cv_buffer_deinit) struct cv_buffer source = CV_BUFFER_INIT;
    cv_buffer_printf(&source, "/%s/", config->bucket);
    cv_s3_encode(&source, config->prefix, true);
    cv_s3_encode(&source, copying->from, true);
    CV_TRY_MEMORY(!source.failed, error, "a request");
    cv_s3_pairs_add(&request->headers, "x-amz-copy-source", source.data);
    cv_s3_pairs_format(&request->headers, "x-amz-copy-source-if-match", "\"%s\"",
                       copying->info.etag);
    request->stall_timeout_s = CV_S3_SLOW_STALL_S;
    return 0;
}

/* An error may come with status 200 here, too. */
static int check_copied(struct cv_s3_request *request, struct cv_error *error)
{
    char etag[CV_STORE_ETAG_SIZE + 2];
    const char *path = request->opaque;
    int result =
        cv_s3_xml_find(request->text.data, request->text.length, path, etag, sizeof(etag), error);
    if (result) {
        return result;
    }
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

static int copy_part(const struct copying *copying, const char *upload_id, int part,
                     char etag[CV_STORE_ETAG_SIZE], struct cv_error *error)
{
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    CV_TRY(cv_s3_request_init(&request, copying->store->client, "PUT", copying->to, error));
    CV_TRY(name_source(copying, &request, error));
    int64_t first = part * COPY_PART;
    int64_t end = first + COPY_PART < copying->info.size ? first + COPY_PART : copying->info.size;
    cv_s3_pairs_format(&request.headers, "x-amz-copy-source-range", "bytes=%lld-%lld",
                       (long long)first, (long long)end - 1);
    cv_s3_pairs_format(&request.query, "partNumber", "%d", part + 1);
    cv_s3_pairs_add(&request.query, "uploadId", upload_id);
    static char path[] = "CopyPartResult/ETag";
    request.check = check_copied;
    request.opaque = path;
    int result = cv_s3_perform(copying->store->client, &request, error);
    if (result) {
        return request.answer.status == 412 ? (int)CV_STORE_CHANGED : result;
    }
    memcpy(etag, request.answer.etag, CV_STORE_ETAG_SIZE);
    return 0;
}

static int copy_in_parts(const struct copying *copying, struct cv_object_info *ret_info,
                         struct cv_error *error)
{
    int count = (int)((copying->info.size + COPY_PART - 1) / COPY_PART);
    cv_auto_free char(*etags)[CV_STORE_ETAG_SIZE] = calloc((size_t)count, sizeof(etags[0]));
    cv_auto_free char *upload_id = NULL;
    const struct cv_put_params params = {.content_type = copying->info.content_type,
                                         .metadata = &copying->metadata};
    CV_TRY_MEMORY(etags, error, "a copy");
    int result = cv_s3_multipart_begin(copying->store, copying->to, &params, copying->info.sha256,
                                       &upload_id, error);
    if (result) {
        return result;
    }
    for (int i = 0; result == 0 && i < count; i++) {
        result = copy_part(copying, upload_id, i, etags[i], error);
    }
    result = result ? result
                    : cv_s3_multipart_end(copying->store, copying->to, upload_id, etags, count,
                                          copying->info.size, ret_info, error);
    if (result) {
        cv_s3_multipart_abort(copying->store, copying->to, upload_id);
    }
    return result;
}

static int copy(const struct copying *copying, struct cv_object_info *ret_info,
                struct cv_error *error)
{
    if (copying->info.size > COPY_MAX) {
        return copy_in_parts(copying, ret_info, error);
    }
    int result = copy_whole(copying, error);
    result =
        result ? result : cv_s3_head(&copying->store->store, copying->to, ret_info, NULL, error);
    return result == CV_STORE_NOT_FOUND
               ? cv_fail(error, CV_ERROR_CONFLICT, "%s was deleted while it was written",
                         copying->to)
               : result;
}

int cv_s3_move(struct cv_store *store, const char *from, const char *to, const char *if_etag,
               struct cv_object_info *ret_info, struct cv_error *error)
{
    cv_auto(copying_deinit) struct copying copying = {
        .store = cv_s3_of(store), .from = from, .to = to};
    struct cv_object_info after;
    struct cv_object_info copied;
    int result = cv_s3_head(store, from, &copying.info, &copying.metadata, error);
    if (result == 0 && if_etag && strcmp(if_etag, copying.info.etag) != 0) {
        return CV_STORE_CHANGED;
    }
    result = result ? result : copy(&copying, &copied, error);
    if (result) {
        return result;
    }
    /* What came in while it was copied must not be lost. */
    result = cv_s3_head(store, from, &after, NULL, error);
    if (result == 0 && strcmp(copying.info.etag, after.etag) != 0) {
        return CV_STORE_CHANGED;
    }
    result = result == 0 ? cv_s3_delete(store, from, error) : result;
    if (result < 0) {
        return result;
    }
    *ret_info = copied;
    return 0;
}
