#include "gateway/upload_parts.h"

#include <string.h>

enum {
    URL_SECONDS = 3600,
    PART_BYTES = 16 << 20, /* few requests, and little that is sent again after a fault */
    PARTS_MOST = 9000,     /* below what S3 takes */
};

/* The size of all parts but the last, in whole MiB. */
static int64_t part_size(int64_t size)
{
    const int64_t mib = 1 << 20;
    int64_t needed = (size / PARTS_MOST / mib + 1) * mib;
    return needed > PART_BYTES ? needed : PART_BYTES;
}

static int64_t part_count(int64_t size)
{
    return (size + part_size(size) - 1) / part_size(size);
}

/* The size that a part has to have; 0: there is no such part. */
static int64_t size_of_part(int64_t size, int64_t number)
{
    int64_t each = part_size(size);
    int64_t count = part_count(size);
    return number < 1 || number > count ? 0 : number < count ? each : size - (count - 1) * each;
}

/* What of an upload is in the bucket: 0 and its parts, CV_STORE_EXISTS where the whole object is in its place. */
static int find_parts(struct cv_store *store, const struct upload *upload,
                      struct cv_store_parts *ret_parts, struct cv_error *error)
{
    struct cv_object_info info;
    *ret_parts = (struct cv_store_parts){0};
    int result = cv_store_head(store, upload->key, &info, error);
    if (result == 0 && info.size == upload->size) {
        return CV_STORE_EXISTS;
    }
    return result < 0 ? result : cv_store_parts_find(store, upload->key, true, ret_parts, error);
}

int upload_show_parts(struct cv_store *store, const struct upload *upload, int64_t *ret_offset,
                      struct cv_error *error)
{
    cv_auto(cv_store_parts_deinit) struct cv_store_parts parts = {0};
    json_t *list = json_array();
    bool good =
        list && json_object_set_new(upload->body, "parts", list) == 0 &&
        json_object_set_new(upload->body, "part_size", json_integer(part_size(upload->size))) == 0;
    int result =
        upload->is_complete ? (int)CV_STORE_EXISTS : find_parts(store, upload, &parts, error);
    *ret_offset = result == CV_STORE_EXISTS ? upload->size : 0;
    for (size_t i = 0; good && i < parts.count; i++) {
        const struct cv_store_part *part = &parts.items[i];
        if (part->size == size_of_part(upload->size, part->number)) {
            good = json_array_append_new(list, json_integer(part->number)) == 0;
            *ret_offset += part->size;
        }
    }
    CV_TRY_MEMORY(good, error, "an upload");
    return result < 0 ? result : 0;
}

/* ---- URLs ---------------------------------------------------------------------------------------- */

static int sign_part(struct cv_store *store, const struct upload *upload,
                     const struct cv_store_parts *parts, const struct cv_store_part *part,
                     json_t *items, struct cv_error *error)
{
    cv_auto_free char *url = NULL;
    int result = cv_store_parts_presign(store, upload->key, parts, part, URL_SECONDS, &url, error);
    if (result == 0 &&
        json_array_append_new(items, json_pack("{s:i, s:I, s:s}", "number", part->number, "size",
                                               (json_int_t)part->size, "url", url)) != 0) {
        result = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for URLs");
    }
    return result;
}

static int sign_parts(struct cv_store *store, struct exchange *exchange,
                      const struct upload *upload, struct cv_error *error)
{
    cv_auto(cv_store_parts_deinit) struct cv_store_parts parts = {0};
    cv_auto(json_decref) json_t *body = json_pack("{s:[]}", "items");
    size_t i;
    json_t *number;
    int result = find_parts(store, upload, &parts, error);
    if (result == CV_STORE_EXISTS) {
        exchange_refuse(exchange, 409, "wrong-state", "Its state forbids this",
                        "all bytes are there: complete this upload");
        return 0;
    }
    json_array_foreach(json_object_get(exchange->values, "numbers"), i, number)
    {
        struct cv_store_part part = {.number = (int)json_integer_value(number),
                                     .size =
                                         size_of_part(upload->size, json_integer_value(number))};
        if (result == 0 && part.size == 0) {
            exchange_refuse(
                exchange, 400, "bad-request", "The request cannot be understood",
                "numbers holds one that this upload has no part for: they begin with 1, "
                "and every part has part_size bytes");
            return 0;
        }
        result =
            result ? result
                   : sign_part(store, upload, &parts, &part, json_object_get(body, "items"), error);
    }
    return result ? result : upload_set_body(&exchange->answer, body, error);
}

void upload_sign_parts(struct cv_store *store, struct exchange *exchange)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    struct cv_error error;
    if (!store || !upload_read(exchange, &upload)) {
        exchange_refuse_store(exchange, NULL);
    } else if (upload_directory(store)) {
        exchange_refuse(exchange, 409, "wrong-state", "Its state forbids this",
                        "this upload is sent by PATCH to its location, not in parts");
    } else if (sign_parts(store, exchange, &upload, &error) != 0) {
        exchange_refuse_store(exchange, &error);
    }
}

/* ---- the end ------------------------------------------------------------------------------------- */

/* 0, or CV_STORE_NOT_FOUND where a part is missing or has another size. */
static int join(struct cv_store *store, const struct upload *upload, struct cv_error *error)
{
    cv_auto(cv_store_parts_deinit) struct cv_store_parts parts = {0};
    struct cv_object_info info;
    int result = find_parts(store, upload, &parts, error);
    if (result != 0) {
        return result == CV_STORE_EXISTS ? 0 : result;
    }
    bool is_whole = (int64_t)parts.count == part_count(upload->size);
    for (size_t i = 0; is_whole && i < parts.count; i++) {
        is_whole = parts.items[i].number == (int)i + 1 &&
                   parts.items[i].size == size_of_part(upload->size, (int64_t)i + 1);
    }
    return is_whole ? cv_store_parts_join(store, upload->key, &parts, &info, error)
                    : (int)CV_STORE_NOT_FOUND;
}

static int see_whole(struct cv_store *store, const struct upload *upload, struct cv_error *error)
{
    struct cv_object_info info;
    int result = cv_store_head(store, upload->key, &info, error);
    return result == 0 && info.size != upload->size ? (int)CV_STORE_NOT_FOUND : result;
}

void upload_join(struct cv_store *store, struct exchange *exchange)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    struct cv_error error;
    if (!store || !upload_read(exchange, &upload)) {
        exchange_refuse_store(exchange, NULL);
        return;
    }
    int result = upload.is_complete        ? 0
                 : upload_directory(store) ? see_whole(store, &upload, &error)
                                           : join(store, &upload, &error);
    exchange->is_joined = result == 0;
    if (result > 0) {
        exchange_refuse(exchange, 409, "wrong-state", "Its state forbids this",
                        "bytes are missing: GET this upload says which are there");
    } else if (result < 0) {
        exchange_refuse_store(exchange, &error);
    }
}
