/* Jobs and runs as a whole: enqueueing them, canceling and retrying them by hand. */
#include "common/queue/calls.h"

enum { PRIORITY_MOST = 10 };

int cv_queue_enqueue(struct cv_db *db, const struct cv_enqueue_params *params,
                     char ret_job_id[CV_UUID_SIZE], struct cv_error *error)
{
    if (params->priority > PRIORITY_MOST) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "priority must be 0..%d, not %d",
                       PRIORITY_MOST, params->priority);
    }
    cv_auto_free char *payload = NULL;
    CV_TRY(cv_queue_dump(params->payload, &payload, error));
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_queue_rows(db, &rows, error,
                         "SELECT job_id, is_new FROM enqueue_job($1, coalesce($2, '{}')::jsonb,"
                         " $3::uuid, $4::int, $5::timestamptz, NULL, $6, $7::uuid, $8::bigint)",
                         params->job_type, payload, params->video_id,
                         params->priority < 0 ? NULL : cv_db_number(params->priority).text,
                         params->scheduled_for, params->dedupe_key, params->correlation_id,
                         params->sequence ? cv_db_number(params->sequence).text : NULL));
    (void)snprintf(ret_job_id, CV_UUID_SIZE, "%s", cv_db_text(rows, 0, "job_id"));
    return cv_db_bool(rows, 0, "is_new") ? CV_QUEUE_OK : CV_QUEUE_DUPLICATE;
}

int cv_queue_enqueue_successor(struct cv_db *db, const struct cv_job *job, const char *job_type,
                               const json_t *payload, struct cv_error *error)
{
    cv_auto_free char *text = NULL;
    CV_TRY(cv_queue_dump(payload, &text, error));
    return cv_queue_run(
        db, error, "SELECT hand_on($1::uuid, $2::bigint, $3, coalesce($4, '{}')::jsonb) AS outcome",
        job->id, cv_db_number(job->token).text, job_type, text);
}

int cv_queue_continue(struct cv_db *db, const struct cv_job *job, const json_t *payload,
                      struct cv_error *error)
{
    cv_auto_free char *text = NULL;
    CV_TRY(cv_queue_dump(payload, &text, error));
    return cv_queue_run(db, error,
                        "SELECT continue_step($1::uuid, $2::bigint, $3::jsonb) AS outcome", job->id,
                        cv_db_number(job->token).text, text);
}

/* ---- runs ------------------------------------------------------------------------------------ */

int cv_queue_start_run(struct cv_db *db, const struct cv_run_params *params,
                       char ret_run_id[CV_UUID_SIZE], struct cv_error *error)
{
    cv_auto_free char *input = NULL;
    CV_TRY(cv_queue_dump(params->input, &input, error));
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error,
                     "SELECT run_id, is_new FROM start_run($1, coalesce($2, '{}')::jsonb,"
                     " $3::uuid, $4::int)",
                     params->workflow, input, params->video_id,
                     params->priority < 0 ? NULL : cv_db_number(params->priority).text));
    (void)snprintf(ret_run_id, CV_UUID_SIZE, "%s", cv_db_text(rows, 0, "run_id"));
    return cv_db_bool(rows, 0, "is_new") ? CV_QUEUE_OK : CV_QUEUE_DUPLICATE;
}

int cv_queue_restart_run(struct cv_db *db, const char *run_id, int64_t *ret_count,
                         struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error, "SELECT restart_run($1::uuid) AS restarted", run_id));
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

/* ---- by hand --------------------------------------------------------------------------------- */

int cv_queue_cancel(struct cv_db *db, const char *job_id, struct cv_error *error)
{
    return cv_queue_run(db, error, "SELECT cancel_job($1::uuid) AS outcome", job_id);
}

int cv_queue_retry(struct cv_db *db, const char *job_id, struct cv_error *error)
{
    return cv_queue_run(db, error, "SELECT retry_job($1::uuid) AS outcome", job_id);
}
