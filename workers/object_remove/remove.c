#include "workers/object_remove/remove.h"

/* After a list with objects the list is read again. This limit ends the loop if somebody keeps
 * adding objects. */
enum { LOOKS_MAX = 100000 };

static int remove_page(struct cv_store *store, const struct cv_object_list *list,
                       struct cv_error *error)
{
    const char *keys[CV_STORE_PAGE_MAX];
    for (size_t i = 0; i < list->count; i++) {
        keys[i] = list->entries[i].key;
    }
    return cv_store_delete_many(store, keys, list->count, error);
}

/* Lists from the first page again after each removal, because removed objects are no longer listed
 * and the last, empty list proves that none is left. A page may be empty without being the last. */
static int remove_prefix(struct cv_objects_removal *removal, const char *prefix,
                         struct cv_error *error)
{
    struct cv_store *store = removal->store;
    cv_auto_free char *continuation = NULL;
    for (int look = 0; look < LOOKS_MAX; look++) {
        if (cv_cancel_level(removal->cancel) >= CV_CANCEL_ABORT) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped while removing %s", prefix);
        }
        cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
        const struct cv_listing listing = {.prefix = prefix, .continuation = continuation};
        CV_TRY(cv_store_list(store, &listing, &list, error));
        if (list.count == 0 && !list.continuation) {
            return 0;
        }
        free(continuation);
        continuation = list.count == 0 ? cv_take(list.continuation) : NULL;
        int result = remove_page(store, &list, error);
        if (result != 0) {
            return cv_fail_context(error, result, "remove %s", prefix);
        }
        removal->removed += (int64_t)list.count;
        if (removal->progress) {
            removal->progress(removal->opaque, removal->removed);
        }
    }
    return cv_fail(error, CV_ERROR_CONFLICT, "somebody goes on writing to %s", prefix);
}

int cv_objects_remove_video(struct cv_objects_removal *removal, const char *video_id,
                            struct cv_error *error)
{
    for (int place = 0; place < CV_OBJECT_PLACE_COUNT; place++) {
        cv_auto_free char *prefix = NULL;
        CV_TRY(cv_object_folder((enum cv_object_place)place, video_id, &prefix, error));
        CV_TRY(remove_prefix(removal, prefix, error));
    }
    /* The bytes of an upload that was not completed. */
    cv_auto_free char *upload = NULL;
    CV_TRY(cv_format(&upload, error, CV_KEYS_UPLOADS "%s", video_id));
    return cv_store_delete(removal->store, upload, error);
}
