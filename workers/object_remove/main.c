#include "common/worker/worker.h"

#include "workers/object_remove/remove.h"

/* The number of objects is unknown, so progress is only a count. */
static void report_progress(void *opaque, int64_t removed)
{
    char doing[64];
    (void)snprintf(doing, sizeof(doing), "removed %lld", (long long)removed);
    cv_stage_progress(opaque, 0, doing);
}

/* May be repeated: removed objects are no longer listed. */
static int remove_objects(struct cv_stage_context *context, const json_t *payload,
                          json_t **ret_result, struct cv_error *error)
{
    const char *video_id = NULL;
    struct cv_objects_removal removal = {
        .store = cv_stage_store(context),
        .cancel = cv_stage_cancel(context),
        .progress = report_progress,
        .opaque = context,
    };
    CV_TRY(cv_payload_uuid(payload, "video_id", &video_id, error));
    CV_TRY(cv_objects_remove_video(&removal, video_id, error));
    *ret_result = json_pack("{s:I}", "removed", (json_int_t)removal.removed);
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
