#include "common/store/s3/parts.h"

#include "common/store/s3/answer.h"
#include "common/store/s3/write.h"

#include <string.h>

enum {
    UPLOADS_SHOWN = 100, /* uploads of one key: several only if several clients began at once */
    PARTS_SHOWN = 1000,  /* parts per answer; S3's limit */
};

/* ---- the upload of a key ------------------------------------------------------------------------- */

struct upload_search {
    const char *key;           /* with the store's prefix */
    char *candidate, *own_key; /* of the current element */
    char *upload_id;           /* the first upload of the key; NULL: none */
};

static void upload_search_deinit(struct upload_search *search)
{
    free(search->candidate);
    free(search->own_key);
    free(search->upload_id);
}
CV_DEFINE_CLEANUP_ADDRESS(struct upload_search, upload_search_deinit)

static int replace(char **text, const char *value, struct cv_error *error)
{
    free(cv_take(*text));
    return cv_format(text, error, "%s", value);
}

static int read_upload(void *opaque, const char *path, const char *text, struct cv_error *error)
{
    struct upload_search *search = opaque;
    static const char upload[] = "ListMultipartUploadsResult/Upload";
    if (strncmp(path, upload, sizeof(upload) - 1) != 0) {
        return 0;
    }
    path += sizeof(upload) - 1;
    if (strcmp(path, "/Key") == 0) {
        return replace(&search->own_key, text, error);
    }
    if (strcmp(path, "/UploadId") == 0) {
        return replace(&search->candidate, text, error);
    }
    /* If several clients began at once, all choose the upload with the smallest id. */
    if (path[0] == '\0' && search->own_key && search->candidate &&
        strcmp(search->own_key, search->key) == 0 &&
        (!search->upload_id || strcmp(search->candidate, search->upload_id) < 0)) {
        free(search->upload_id);
        search->upload_id = cv_take(search->candidate);
    }
    return 0;
}

static int find_upload(struct cv_s3_store *store, const char *key, char **ret_upload_id,
                       struct cv_error *error)
{
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    cv_auto(upload_search_deinit) struct upload_search search = {0};
    cv_auto_free char *full_key = NULL;
    CV_TRY(cv_s3_request_init(&request, store->client, "GET", NULL, error));
    CV_TRY(cv_format(&full_key, error, "%s%s", cv_s3_client_config(store->client)->prefix, key));
    search.key = full_key;
    cv_s3_pairs_add(&request.query, "uploads", "");
    cv_s3_pairs_add(&request.query, "prefix", full_key);
    cv_s3_pairs_format(&request.query, "max-uploads", "%d", (int)UPLOADS_SHOWN);
    CV_TRY(cv_s3_perform(store->client, &request, error));
    int result =
        cv_s3_xml_read(request.text.data, request.text.length, read_upload, &search, error);
    *ret_upload_id = result ? NULL : cv_take(search.upload_id);
    return result;
}

/* ---- the parts so far ------------------------------------------------------------------------ */

struct part_list {
    struct cv_store_parts *parts;
    struct cv_store_part part; /* the current one */
    bool is_truncated;
};

static int add_part(struct part_list *list, struct cv_error *error)
{
    struct cv_store_parts *parts = list->parts;
    CV_TRY_MEMORY(CV_MAKE_ROOM(parts->items, parts->count), error, "a list of parts");
    parts->items[parts->count++] = list->part;
    list->part = (struct cv_store_part){0};
    return 0;
}

static int read_part(void *opaque, const char *path, const char *text, struct cv_error *error)
{
    struct part_list *list = opaque;
    static const char part[] = "ListPartsResult/Part";
    if (strcmp(path, "ListPartsResult/IsTruncated") == 0) {
        list->is_truncated = strcmp(text, "true") == 0;
    }
    if (strncmp(path, part, sizeof(part) - 1) != 0) {
        return 0;
    }
    path += sizeof(part) - 1;
    int64_t number = 0;
    if (strcmp(path, "/PartNumber") == 0 && cv_parse_int(text, 1, CV_S3_PARTS_MAX, &number)) {
        list->part.number = (int)number;
    } else if (strcmp(path, "/Size") == 0 && !cv_parse_int(text, 0, INT64_MAX, &list->part.size)) {
        return cv_fail(error, CV_ERROR_SERVER, "the list has a part without a size");
    } else if (strcmp(path, "/ETag") == 0) {
        size_t length = strlen(text);
        bool quoted = length >= 2 && text[0] == '"' && text[length - 1] == '"';
        (void)snprintf(list->part.etag, sizeof(list->part.etag), "%.*s",
                       (int)(quoted ? length - 2 : length), text + (quoted ? 1 : 0));
    } else if (path[0] == '\0') {
        return list->part.number > 0
                   ? add_part(list, error)
                   : cv_fail(error, CV_ERROR_SERVER, "the list has a part without a number");
    }
    return 0;
}

static int list_parts(struct cv_s3_store *store, const char *key, struct cv_store_parts *parts,
                      struct cv_error *error)
{
    for (;;) {
        cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
        struct part_list list = {.parts = parts};
        size_t before = parts->count;
        int marker = before > 0 ? parts->items[before - 1].number : 0;
        CV_TRY(cv_s3_request_init(&request, store->client, "GET", key, error));
        cv_s3_pairs_add(&request.query, "uploadId", parts->upload_id);
        cv_s3_pairs_format(&request.query, "max-parts", "%d", (int)PARTS_SHOWN);
        cv_s3_pairs_format(&request.query, "part-number-marker", "%d", marker);
        CV_TRY(cv_s3_perform(store->client, &request, error));
        CV_TRY(cv_s3_xml_read(request.text.data, request.text.length, read_part, &list, error));
        if (!list.is_truncated) {
            return 0;
        }
        if (parts->count == before || parts->items[parts->count - 1].number <= marker) {
            return cv_fail(error, CV_ERROR_SERVER,
                           "the object store's list of parts goes in circles");
        }
    }
}

int cv_s3_parts_find(struct cv_store *store, const char *key, struct cv_store_parts *ret_parts,
                     struct cv_error *error)
{
    struct cv_s3_store *s3 = cv_s3_of(store);
    const struct cv_new_object object = {.key = key};
    CV_TRY(find_upload(s3, key, &ret_parts->upload_id, error));
    if (!ret_parts->upload_id) {
        return cv_s3_multipart_begin(s3, &object, &ret_parts->upload_id, error);
    }
    return list_parts(s3, key, ret_parts, error);
}

int cv_s3_parts_join(struct cv_store *store, const char *key, const struct cv_store_parts *parts,
                     struct cv_object_info *ret_info, struct cv_error *error)
{
    for (size_t i = 0; i < parts->count; i++) {
        if (parts->items[i].number != (int)i + 1) {
            return cv_fail(error, CV_ERROR_CONSTRAINT, "part %zu is missing", i + 1);
        }
    }
    return cv_s3_multipart_end(cv_s3_of(store), key, parts, ret_info, error);
}

int cv_s3_parts_drop(struct cv_store *store, const char *key, struct cv_error *error)
{
    char *upload_id = NULL;
    CV_TRY(find_upload(cv_s3_of(store), key, &upload_id, error));
    cv_auto_free char *owned = upload_id;
    if (owned) {
        cv_s3_multipart_abort(cv_s3_of(store), key, owned);
    }
    return 0;
}
