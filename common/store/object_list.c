#include "common/store/backend.h"

#include <string.h>

static int list_page(struct cv_store *store, const char *prefix, const char *start_after,
                     const char *continuation, size_t limit, struct cv_object_list *ret_list,
                     struct cv_error *error)
{
    if (limit < 1 || limit > CV_STORE_PAGE_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a page of a list has 1 to %d entries",
                       CV_STORE_PAGE_MAX);
    }
    if (strnlen(prefix, CV_STORE_KEY_MAX + 1) > CV_STORE_KEY_MAX ||
        (start_after && strnlen(start_after, CV_STORE_KEY_MAX + 1) > CV_STORE_KEY_MAX)) {
        return cv_fail(error, CV_ERROR_INVALID_KEY, "prefix or start of a list exceeds a key");
    }
    struct cv_object_list list = {0};
    int result = cv_store_judge(
        store->backend->list(store, prefix, start_after, continuation, limit, &list, error), error);
    if (result) {
        cv_object_list_deinit(&list);
        return result;
    }
    *ret_list = list;
    return 0;
}

int cv_store_list(struct cv_store *store, const char *prefix, const char *continuation,
                  size_t limit, struct cv_object_list *ret_list, struct cv_error *error)
{
    return list_page(store, prefix, NULL, continuation, limit, ret_list, error);
}

int cv_store_list_after(struct cv_store *store, const char *prefix, const char *start_after,
                        size_t limit, struct cv_object_list *ret_list, struct cv_error *error)
{
    return list_page(store, prefix, start_after, NULL, limit, ret_list, error);
}

void cv_object_list_deinit(struct cv_object_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->entries[i].key);
    }
    free(list->entries);
    free(list->continuation);
    *list = (struct cv_object_list){0};
}

int cv_object_list_add(struct cv_object_list *list, const char *key,
                       const struct cv_object_info *info, struct cv_error *error)
{
    char *copy = CV_MAKE_ROOM(list->entries, list->count) ? strdup(key) : NULL;
    CV_TRY_MEMORY(copy, error, "a list of objects");
    struct cv_object_entry *entry = &list->entries[list->count++];
    *entry =
        (struct cv_object_entry){.key = copy, .size = info->size, .modified_ms = info->modified_ms};
    memcpy(entry->etag, info->etag, sizeof(entry->etag));
    return 0;
}
