#include "common/queue/calls.h"

enum {
    MESSAGE_BYTES = 4 * 1024,                 /* more than any cv_error holds */
    RETRY_AFTER_MAX_MS = 24 * 60 * 60 * 1000, /* whatever the other side wishes */
};

int cv_queue_fence(struct cv_db *db, const struct cv_job *job, struct cv_error *error)
{
    if (!cv_db_in_transaction(db)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "a fence outside a transaction holds nothing");
    }
    return cv_queue_run(db, error, "SELECT fence_job($1::uuid, $2::bigint) AS outcome", job->id,
                        cv_queue_number(job->token).text);
}

int cv_queue_complete(struct cv_db *db, const struct cv_job *job, const json_t *result,
                      const struct cv_attempt_report *report, struct cv_error *error)
{
    cv_auto_free char *result_text = NULL;
    cv_auto_free char *report_text = NULL;
    int failure = cv_queue_dump(result, &result_text, error);
    if (failure == 0) {
        failure = cv_queue_dump_report(report, &report_text, error);
    }
    if (failure) {
        return failure;
    }
    return cv_queue_run(
        db, error, "SELECT complete_job($1::uuid, $2::bigint, $3::jsonb, $4::jsonb) AS outcome",
        job->id, cv_queue_number(job->token).text, result_text, report_text);
}

int cv_queue_complete_batch(struct cv_db *db, const struct cv_job_list *list, size_t *ret_completed,
                            struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer ids = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer tokens = CV_BUFFER_INIT;
    cv_buffer_text(&ids, "{");
    cv_buffer_text(&tokens, "{");
    for (size_t i = 0; i < list->count; i++) {
        const char *comma = i ? "," : "";
        cv_buffer_printf(&ids, "%s%s", comma, list->jobs[i].id);
        cv_buffer_printf(&tokens, "%s%lld", comma, (long long)list->jobs[i].token);
    }
    cv_buffer_text(&ids, "}");
    cv_buffer_text(&tokens, "}");
    if (ids.failed || tokens.failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for %zu jobs", list->count);
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_queue_rows(db, &rows, error,
                               "SELECT complete_jobs($1::uuid[], $2::bigint[]) AS completed",
                               ids.data, tokens.data);
    if (result) {
        return result;
    }
    *ret_completed = (size_t)cv_db_int(rows, 0, "completed", 0);
    return 0;
}

int cv_queue_fail(struct cv_db *db, const struct cv_job *job, const struct cv_error *failure,
                  const struct cv_attempt_report *report, struct cv_error *error)
{
    cv_auto_free char *message = NULL;
    cv_auto_free char *report_text = NULL;
    int result = cv_queue_clean_text(failure->message, MESSAGE_BYTES, &message, error);
    if (result == 0) {
        result = cv_queue_dump_report(report, &report_text, error);
    }
    if (result) {
        return result;
    }
    int64_t wish =
        failure->retry_after_ms < RETRY_AFTER_MAX_MS ? failure->retry_after_ms : RETRY_AFTER_MAX_MS;
    return cv_queue_run(db, error,
                        "SELECT fail_job($1::uuid, $2::bigint, $3, $4, $5::boolean, $6::jsonb,"
                        " $7::bigint * interval '1 millisecond') AS outcome",
                        job->id, cv_queue_number(job->token).text,
                        cv_error_type_name(failure->type), message,
                        failure->verdict == CV_VERDICT_PERMANENT ? "false" : "true", report_text,
                        wish > 0 ? cv_queue_number(wish).text : NULL);
}

int cv_queue_release(struct cv_db *db, const struct cv_job *job, const char *reason,
                     const struct cv_attempt_report *report, struct cv_error *error)
{
    cv_auto_free char *clean = NULL;
    cv_auto_free char *report_text = NULL;
    int result = cv_queue_clean_text(reason, MESSAGE_BYTES, &clean, error);
    if (result == 0) {
        result = cv_queue_dump_report(report, &report_text, error);
    }
    if (result) {
        return result;
    }
    return cv_queue_run(db, error,
                        "SELECT release_job($1::uuid, $2::bigint, $3, $4::jsonb) AS outcome",
                        job->id, cv_queue_number(job->token).text, clean, report_text);
}

int cv_queue_settle_canceled(struct cv_db *db, const struct cv_job *job,
                             const struct cv_attempt_report *report, struct cv_error *error)
{
    cv_auto_free char *report_text = NULL;
    int result = cv_queue_dump_report(report, &report_text, error);
    if (result) {
        return result;
    }
    return cv_queue_run(db, error,
                        "SELECT settle_canceled_job($1::uuid, $2::bigint, $3::jsonb) AS outcome",
                        job->id, cv_queue_number(job->token).text, report_text);
}

int cv_queue_record_artifacts(struct cv_db *db, const struct cv_job *job, const char *bucket,
                              const json_t *artifacts, struct cv_error *error)
{
    cv_auto_free char *text = NULL;
    int result = cv_queue_dump(artifacts, &text, error);
    if (result) {
        return result;
    }
    return cv_queue_run(db, error,
                        "SELECT record_artifacts($1::uuid, $2::bigint, $3, $4::jsonb) AS outcome",
                        job->id, cv_queue_number(job->token).text, bucket, text);
}
