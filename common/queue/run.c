#include "common/queue/calls.h"

int cv_queue_start_run(struct cv_db *db, const struct cv_run_params *params,
                       char ret_run_id[CV_UUID_SIZE], struct cv_error *error)
{
    cv_auto_free char *input = NULL;
    int result = cv_queue_dump(params->input, &input, error);
    if (result) {
        return result;
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    result = cv_db_run(db, &rows, error,
                       "SELECT run_id, is_new FROM start_run($1, coalesce($2, '{}')::jsonb,"
                       " $3::uuid, $4::int)",
                       params->workflow, input, params->video_id,
                       params->priority < 0 ? NULL : cv_queue_number(params->priority).text);
    if (result) {
        return result;
    }
    (void)snprintf(ret_run_id, CV_UUID_SIZE, "%s", cv_db_text(rows, 0, "run_id"));
    return cv_db_bool(rows, 0, "is_new") ? CV_QUEUE_OK : CV_QUEUE_DUPLICATE;
}

int cv_queue_restart_run(struct cv_db *db, const char *run_id, int64_t *ret_count,
                         struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(db, &rows, error, "SELECT restart_run($1::uuid) AS restarted", run_id);
    if (result) {
        return result;
    }
    if (!cv_db_text(rows, 0, "restarted")) {
        return CV_QUEUE_NO_SUCH_JOB;
    }
    *ret_count = cv_db_int(rows, 0, "restarted", 0);
    return 0;
}

int cv_queue_cancel_run(struct cv_db *db, const char *run_id, struct cv_error *error)
{
    return cv_queue_run(db, error, "SELECT cancel_run($1::uuid) AS outcome", run_id);
}
