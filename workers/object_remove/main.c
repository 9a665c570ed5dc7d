#include "common/worker/worker.h"

/* The number of objects is unknown, so progress is only a count. */
static void report_progress(struct cv_stage_context *context, int64_t removed)
{
    char doing[64];
    (void)snprintf(doing, sizeof(doing), "removed %lld", (long long)removed);
    cv_stage_progress(context, 0, doing);
}

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
static int remove_prefix(struct cv_stage_context *context, const char *prefix, int64_t *removed,
                         struct cv_error *error)
{
    struct cv_store *store = cv_stage_store(context);
    cv_auto_free char *continuation = NULL;
    for (int look = 0; look < LOOKS_MAX; look++) {
        if (cv_cancel_level(cv_stage_cancel(context)) >= CV_CANCEL_ABORT) {
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
        *removed += (int64_t)list.count;
        report_progress(context, *removed);
    }
    return cv_fail(error, CV_ERROR_CONFLICT, "somebody goes on writing to %s", prefix);
}

/* May be repeated: removed objects are no longer listed. */
static int remove_objects(struct cv_stage_context *context, const json_t *payload,
                          json_t **ret_result, struct cv_error *error)
{
    const char *video_id = NULL;
    int64_t removed = 0;
    CV_TRY(cv_payload_uuid(payload, "video_id", &video_id, error));
    for (int place = 0; place < CV_OBJECT_PLACE_COUNT; place++) {
        cv_auto_free char *prefix = NULL;
        CV_TRY(cv_object_folder((enum cv_object_place)place, video_id, &prefix, error));
        CV_TRY(remove_prefix(context, prefix, &removed, error));
    }
    /* The bytes of an upload that was not completed. */
    cv_auto_free char *upload = NULL;
    CV_TRY(cv_format(&upload, error, CV_KEYS_UPLOADS "%s", video_id));
    CV_TRY(cv_store_delete(cv_stage_store(context), upload, error));
    *ret_result = json_pack("{s:I}", "removed", (json_int_t)removed);
    return *ret_result ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the result");
}

/* Records the end of the removal. A stage that was processing the video may have written objects
 * since; then the removal is repeated. */
static int settle(struct cv_db *db, const struct cv_job *job, const json_t *result,
                  struct cv_error *error)
{
    const char *video_id = NULL;
    const json_t *removed = json_object_get(result, "removed");
    CV_TRY(cv_payload_uuid(job->payload, "video_id", &video_id, error));
    if (!json_is_integer(removed) || json_integer_value(removed) < 0) {
        return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "result: \"removed\" is not a count");
    }
    return cv_db_run(db, NULL, error,
                     "SELECT settle_object_removal($1::uuid, $2::uuid, $3::bigint)", video_id,
                     job->id, cv_db_number(json_integer_value(removed)).text);
}

int main(int argc, char **argv)
{
    static const struct cv_grant grants[] = {
        {CV_GRANT_READ | CV_GRANT_DELETE, CV_KEYS_ORIGINALS "{video_id}/*"},
        {CV_GRANT_READ | CV_GRANT_DELETE, CV_KEYS_PROXY "{video_id}/*"},
        {CV_GRANT_READ | CV_GRANT_DELETE, CV_KEYS_CLIPS "{video_id}/*"},
        {CV_GRANT_READ | CV_GRANT_DELETE, CV_KEYS_THUMBS "{video_id}/*"},
        {CV_GRANT_READ | CV_GRANT_DELETE, CV_KEYS_FRAMES "{video_id}/*"},
        {CV_GRANT_READ | CV_GRANT_DELETE, CV_KEYS_LINES "{video_id}/*"},
        {CV_GRANT_DELETE, CV_KEYS_UPLOADS "{video_id}"},
        {0},
    };
    static const struct cv_stage stage = {
        .name = "object-remove-worker",
        .job_type = "object_remove",
        .needs = CV_STAGE_NEEDS_STORE | CV_STAGE_ONLY_REMOVES,
        .grants = grants,
        .run = remove_objects,
        .commit = settle,
    };
    return cv_worker_main(&stage, argc, argv);
}
