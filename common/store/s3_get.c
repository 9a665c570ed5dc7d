#include "common/store/s3_store.h"

#include <string.h>
#include <strings.h>

struct cv_store_get {
    struct cv_s3_store *store;
    char *key;
    struct cv_s3_request request;
};

static void get_free(struct cv_store_get *get)
{
    cv_s3_request_deinit(&get->request);
    free(get->key);
    free(get);
}
CV_DEFINE_CLEANUP(struct cv_store_get *, get_free)

/* The bytes against the length that was announced, and against the MD5 where the ETag is one. */
static int check_whole(struct cv_s3_request *request, struct cv_error *error)
{
    const struct cv_s3_answer *answer = &request->answer;
    const struct cv_s3_store *store = request->opaque;
    if (answer->content_length >= 0 && (uint64_t)answer->content_length != request->text.length) {
        return cv_fail(error, CV_ERROR_CONNECTION, "the answer has %zu bytes instead of %lld",
                       request->text.length, (long long)answer->content_length);
    }
    if (!store->etag_is_md5 || answer->etag_is_no_md5 || !cv_s3_is_md5(answer->etag)) {
        return 0;
    }
    char md5[CV_S3_MD5_SIZE];
    const struct cv_store_input input = {.data = request->text.data, .fd = -1};
    int result = cv_s3_digest(&input, 0, request->text.length, NULL, md5, error);
    if (result == 0 && strcasecmp(md5, answer->etag) != 0) {
        return cv_fail(error, CV_ERROR_CONNECTION,
                       "the bytes were damaged on their way: MD5 %s, ETag %s", md5, answer->etag);
    }
    return result;
}

int cv_s3_get_begin(struct cv_store *store, const char *key, size_t limit,
                    struct cv_store_get **ret_get, struct cv_error *error)
{
    cv_auto(get_free) struct cv_store_get *get = calloc(1, sizeof(*get));
    if (!get) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to get an object");
    }
    get->store = cv_s3_of(store);
    struct cv_s3_client *client = get->store->client;
    int result = cv_s3_request_init(&get->request, client, "GET", key, error);
    result = result ? result : cv_format(&get->key, error, "%s", key);
    if (result) {
        return result;
    }
    get->request.text_limit = limit;
    get->request.check = check_whole;
    get->request.opaque = get->store;
    result = cv_s3_start(client, &get->request, error);
    if (result == 0) {
        *ret_get = cv_take(get);
    }
    return result;
}

int cv_s3_get_end(struct cv_store_get *given, void **ret_data, size_t *ret_size,
                  struct cv_error *error)
{
    cv_auto(get_free) struct cv_store_get *get = given;
    struct cv_s3_request *request = &get->request;
    int result = cv_s3_finish(get->store->client, request, error);
    if (result == 0) {
        char *data = NULL;
        size_t size = request->text.length;
        result = cv_buffer_take(&request->text, &data, error);
        if (result == 0) {
            *ret_data = data;
            *ret_size = size;
        }
        return result;
    }
    if (request->answer.status == 404 && error->type == CV_ERROR_OBJECT_NOT_FOUND) {
        return CV_STORE_NOT_FOUND;
    }
    if (request->answer.status / 100 == 2 &&
        request->answer.content_length > (int64_t)request->text_limit) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "%s has %lld bytes, more than %zu", get->key,
                       (long long)request->answer.content_length, request->text_limit);
    }
    return result;
}

void cv_s3_get_stop(struct cv_store_get *get)
{
    cv_s3_cancel(get->store->client, &get->request);
    get_free(get);
}

int cv_s3_get(struct cv_store *store, const char *key, size_t limit, void **ret_data,
              size_t *ret_size, struct cv_error *error)
{
    struct cv_store_get *get = NULL;
    int result = cv_s3_get_begin(store, key, limit, &get, error);
    return result ? result : cv_s3_get_end(get, ret_data, ret_size, error);
}
