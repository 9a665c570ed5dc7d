#include "gateway/upload.h"

#include "gateway/upload_parts.h"

#include <string.h>

bool upload_read(const struct exchange *exchange, struct upload *ret_upload)
{
    const struct answer *answer = &exchange->answer;
    json_t *body = json_loadb(answer->body ? answer->body : "", answer->length, 0, NULL);
    const char *state = json_string_value(json_object_get(body, "state"));
    *ret_upload = (struct upload){.body = body,
                                  .id = json_string_value(json_object_get(body, "id")),
                                  .key = json_string_value(json_object_get(body, "key")),
                                  .size = json_integer_value(json_object_get(body, "size")),
                                  .is_complete = state && strcmp(state, "complete") == 0};
    return ret_upload->id != NULL;
}

void upload_deinit(struct upload *upload)
{
    json_decref(upload->body);
    *upload = (struct upload){0};
}

const char *upload_directory(const struct cv_store *store)
{
    const char *name = cv_store_name(store);
    return strncmp(name, "dir:", 4) == 0 ? name + 4 : NULL;
}

int upload_spool_key(const char *id, char **ret_key, struct cv_error *error)
{
    return cv_format(ret_key, error, "%s%s", CV_KEYS_UPLOADS, id);
}

void upload_answer_empty(struct answer *answer)
{
    free(cv_take(answer->body));
    answer->length = 0;
    answer->status = 204;
}

void upload_set_tus_headers(struct answer *answer, int64_t offset, int64_t size)
{
    char number[2][24];
    (void)snprintf(number[0], sizeof(number[0]), "%lld", (long long)offset);
    (void)snprintf(number[1], sizeof(number[1]), "%lld", (long long)size);
    if (!answer->headers) {
        answer->headers = json_object();
    }
    (void)json_object_set_new(answer->headers, "Tus-Resumable", json_string("1.0.0"));
    (void)json_object_set_new(answer->headers, "Upload-Offset", json_string(number[0]));
    (void)json_object_set_new(answer->headers, "Upload-Length", json_string(number[1]));
}

int upload_set_body(struct answer *answer, const json_t *body, struct cv_error *error)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    CV_TRY_MEMORY(text, error, "an upload");
    free(answer->body);
    answer->body = text;
    answer->length = strlen(text);
    return 0;
}

/* How many bytes there are in a directory: in the spool, or at the object's place. */
static int read_offset(struct cv_store *store, const struct upload *upload, int64_t *ret_offset,
                       struct cv_error *error)
{
    cv_auto_free char *spool = NULL;
    struct cv_object_info info = {0};
    CV_TRY(upload_spool_key(upload->id, &spool, error));
    int result = cv_store_head(store, spool, &info, error);
    if (result == CV_STORE_NOT_FOUND) {
        result = cv_store_head(store, upload->key, &info, error);
    }
    *ret_offset = result == 0 ? info.size : 0;
    return result < 0 ? result : 0;
}

static int show(struct cv_store *store, struct exchange *exchange, const struct upload *upload,
                struct cv_error *error)
{
    int64_t offset = upload->size;
    bool is_bucket = !upload_directory(store);
    CV_TRY(is_bucket             ? upload_show_parts(store, upload, &offset, error)
           : upload->is_complete ? 0
                                 : read_offset(store, upload, &offset, error));
    upload_set_tus_headers(&exchange->answer, offset, upload->size);
    if (exchange->is_last_part) {
        upload_answer_empty(&exchange->answer);
        return 0;
    }
    (void)json_object_del(upload->body, "key");
    bool good =
        json_object_set_new(upload->body, "mode", json_string(is_bucket ? "parts" : "tus")) == 0 &&
        json_object_set_new(upload->body, "offset", json_integer(offset)) == 0;
    return upload_set_body(&exchange->answer, good ? upload->body : NULL, error);
}

void upload_show(struct cv_store *store, struct exchange *exchange)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    struct cv_error error;
    if (!store || !upload_read(exchange, &upload)) {
        exchange_refuse_store(exchange, NULL);
    } else if (show(store, exchange, &upload, &error) != 0) {
        exchange_refuse_store(exchange, &error);
    }
}

void upload_forget(struct cv_store *store, struct exchange *exchange)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    cv_auto_free char *spool = NULL;
    struct cv_error error;
    if (!store || !upload_read(exchange, &upload)) {
        exchange_refuse_store(exchange, NULL);
        return;
    }
    int result = upload_spool_key(upload.id, &spool, &error);
    result = result ? result : cv_store_delete(store, spool, &error);
    result = result || !upload.key ? result : cv_store_parts_drop(store, upload.key, &error);
    if (result != 0) {
        exchange_refuse_store(exchange, &error);
    } else {
        upload_answer_empty(&exchange->answer);
    }
}
