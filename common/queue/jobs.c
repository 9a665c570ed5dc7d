#include "common/queue/calls.h"

#include <string.h>

/* ---- the next jobs --------------------------------------------------------------------------- */

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

/* ---- claiming and settling ------------------------------------------------------------------- */

/* A claimed job: claiming it, keeping its lease, reporting and ending its attempt. */

enum {
    DOING_BYTES = 400,
    MESSAGE_BYTES = 4 * 1024, /* more than any cv_error holds */
    /* Of each output stream of a stage: enough for a stack trace, small enough for a million rows. */
    TAIL_BYTES = 8 * 1024,
    RETRY_AFTER_MAX_MS = 24 * 60 * 60 * 1000, /* however long a server asks us to wait */
};

/* ---- claim and lease ------------------------------------------------------------------------- */

static void job_deinit(struct cv_job *job)
{
    free(job->job_type);
    json_decref(job->payload);
}

void cv_job_list_deinit(struct cv_job_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        job_deinit(&list->jobs[i]);
    }
    free(list->jobs);
    *list = (struct cv_job_list){NULL, 0};
}

static void copy_uuid(char target[CV_UUID_SIZE], const char *text)
{
    (void)snprintf(target, CV_UUID_SIZE, "%s", text ? text : "");
}

static int read_job(const struct cv_db_result *rows, int row, struct cv_job *job,
                    struct cv_error *error)
{
    copy_uuid(job->id, cv_db_text(rows, row, "id"));
    copy_uuid(job->video_id, cv_db_text(rows, row, "video_id"));
    copy_uuid(job->tenant_id, cv_db_text(rows, row, "tenant_id"));
    copy_uuid(job->correlation_id, cv_db_text(rows, row, "correlation_id"));
    job->token = cv_db_int(rows, row, "lease_token", 0);
    job->priority = (int)cv_db_int(rows, row, "priority", 0);
    job->attempt = (int)cv_db_int(rows, row, "attempt", 0);
    job->time_limit_ms = cv_db_int(rows, row, "time_limit_ms", 0);
    job->waited_ms = cv_db_int(rows, row, "waited_ms", 0);
    job->job_type = strdup(cv_db_text(rows, row, "job_type"));
    CV_TRY_MEMORY(job->job_type, error, "a job");
    json_error_t reason;
    job->payload = json_loads(cv_db_text(rows, row, "payload"), JSON_DECODE_ANY, &reason);
    if (!job->payload) { /* nested too deeply, for example: only this job fails, not the claim */
        job->payload = json_null();
    }
    return 0;
}

static int read_jobs(const struct cv_db_result *rows, struct cv_job_list *list,
                     struct cv_error *error)
{
    size_t count = (size_t)cv_db_rows(rows);
    list->jobs = calloc(count, sizeof(*list->jobs));
    if (!list->jobs) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for %zu jobs", count);
    }
    list->count = count;
    for (size_t i = 0; i < count; i++) {
        CV_TRY(read_job(rows, (int)i, &list->jobs[i], error));
    }
    return 0;
}

int cv_queue_claim(struct cv_db *db, const struct cv_claim_params *params,
                   struct cv_job_list *ret_list, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_queue_rows(
        db, &rows, error,
        "SELECT j.id, j.video_id, j.tenant_id, j.correlation_id, j.job_type, j.payload,"
        "       j.lease_token, j.priority, j.attempt,"
        "       (SELECT extract(epoch FROM t.time_limit) * 1000 FROM job_types t"
        "        WHERE t.name = j.job_type)::bigint AS time_limit_ms,"
        "       (extract(epoch FROM j.started_at - j.ready_at) * 1000)::bigint"
        "           AS waited_ms"
        " FROM claim_jobs($1, $2, $3::int, $4::bigint * interval '1 millisecond')"
        "      WITH ORDINALITY AS j"
        " ORDER BY j.ordinality",
        params->worker_id, params->job_type, cv_db_number(params->limit).text,
        cv_db_number(params->lease_ms).text));
    if (cv_db_rows(rows) == 0) {
        return CV_QUEUE_EMPTY;
    }
    cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
    CV_TRY(read_jobs(rows, &list, error));
    *ret_list = list;
    list = (struct cv_job_list){NULL, 0};
    return 0;
}

int cv_queue_renew(struct cv_db *db, const struct cv_lease *lease, int64_t lease_ms,
                   struct cv_error *error)
{
    return cv_queue_run(db, error,
                        "SELECT renew_lease($1::uuid, $2::bigint,"
                        " $3::bigint * interval '1 millisecond') AS outcome",
                        lease->job_id, cv_db_number(lease->token).text,
                        cv_db_number(lease_ms).text);
}

int cv_queue_progress(struct cv_db *db, const struct cv_lease *lease, double fraction,
                      const char *doing, struct cv_error *error)
{
    char number[32];
    double bounded = fraction > 0 ? (fraction < 1 ? fraction : 1) : 0; /* a NaN becomes 0 */
    (void)snprintf(number, sizeof(number), "%.6f", bounded);
    cv_auto_free char *clean = NULL;
    CV_TRY(cv_queue_clean_text(doing, DOING_BYTES, &clean, error));
    return cv_queue_run(db, error,
                        "SELECT report_progress($1::uuid, $2::bigint, $3::real, $4) AS outcome",
                        lease->job_id, cv_db_number(lease->token).text, number, clean);
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Where the first whole line or word of a cut text begins. Redaction recognises a secret by the name
 * before it, which the cut may have removed. */
static const char *first_whole_part(const char *text)
{
    const char *line = strchr(text, '\n');
    const char *part = line && line[1] ? line : strchr(text, ' ');
    return part ? part + 1 : text;
}

static int set_tail(json_t *object, const char *key, const char *text, struct cv_error *error)
{
    cv_auto_free char *clean = NULL;
    size_t length = text ? strlen(text) : 0;
    if (length >= TAIL_BYTES) {
        text = first_whole_part(text + length - TAIL_BYTES);
    }
    CV_TRY(cv_queue_clean_text(text, TAIL_BYTES, &clean, error));
    if (clean && json_object_set_new(object, key, json_string(clean))) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a report");
    }
    return 0;
}

/* JSON text (free() it) of a report; NULL stays NULL. */
static int dump_report(const struct cv_attempt_report *report, char **ret_text,
                       struct cv_error *error)
{
    if (!report) {
        *ret_text = NULL;
        return 0;
    }
    cv_auto(json_decref) json_t *object =
        json_pack("{s:i, s:f, s:I}", "exit_code", report->exit_code, "cpu_seconds",
                  report->cpu_seconds, "peak_memory_bytes", (json_int_t)report->peak_memory_bytes);
    if (!object ||
        (report->pid > 0 && json_object_set_new(object, "pid", json_integer(report->pid))) ||
        (report->warnings &&
         json_object_set(object, "warnings", (json_t *)report->warnings) != 0)) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a report");
    }
    CV_TRY(set_tail(object, "stdout_tail", report->stdout_tail, error));
    CV_TRY(set_tail(object, "stderr_tail", report->stderr_tail, error));
    return cv_queue_dump(object, ret_text, error);
}

int cv_queue_job_log(struct cv_db *db, const char *job_id, char **ret_text, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(
        db, &rows, error,
        "SELECT jsonb_build_object('job_id', j.id, 'job_type', j.job_type, 'status', j.status,"
        " 'video_id', j.video_id, 'tenant_id', j.tenant_id, 'correlation_id', j.correlation_id,"
        " 'created_at', j.created_at, 'finished_at', j.finished_at, 'payload', j.payload,"
        " 'result', j.result, 'attempts', (SELECT coalesce(jsonb_agg(to_jsonb(a) - 'job_id'"
        "  ORDER BY a.attempt), '[]') FROM job_attempts a WHERE a.job_id = j.id),"
        " 'events', (SELECT coalesce(jsonb_agg(jsonb_build_object('ts', e.ts, 'source', e.source,"
        "  'level', e.level, 'message', e.message) ORDER BY e.ts, e.id), '[]')"
        "  FROM task_events e WHERE e.job_id = j.id AND e.ts >= j.created_at)) AS log"
        " FROM jobs j WHERE j.id = $1::uuid",
        job_id));
    if (cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "job %s does not exist", job_id);
    }
    return cv_redacted_text(cv_db_text(rows, 0, "log"), ret_text, error);
}

/* ---- settle ---------------------------------------------------------------------------------- */

int cv_queue_fence(struct cv_db *db, const struct cv_job *job, struct cv_error *error)
{
    if (!cv_db_in_transaction(db)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cv_queue_fence was called outside a transaction");
    }
    return cv_queue_run(db, error, "SELECT fence_job($1::uuid, $2::bigint) AS outcome", job->id,
                        cv_db_number(job->token).text);
}

int cv_queue_complete(struct cv_db *db, const struct cv_job *job, const json_t *result,
                      const struct cv_attempt_report *report, struct cv_error *error)
{
    cv_auto_free char *result_text = NULL;
    cv_auto_free char *report_text = NULL;
    int failure = cv_queue_dump(result, &result_text, error);
    if (failure == 0) {
        failure = dump_report(report, &report_text, error);
    }
    if (failure) {
        return failure;
    }
    return cv_queue_run(
        db, error, "SELECT complete_job($1::uuid, $2::bigint, $3::jsonb, $4::jsonb) AS outcome",
        job->id, cv_db_number(job->token).text, result_text, report_text);
}

int cv_queue_fail(struct cv_db *db, const struct cv_job *job, const struct cv_error *failure,
                  const struct cv_attempt_report *report, struct cv_error *error)
{
    cv_auto_free char *message = NULL;
    cv_auto_free char *report_text = NULL;
    CV_TRY(cv_queue_clean_text(failure->message, MESSAGE_BYTES, &message, error));
    CV_TRY(dump_report(report, &report_text, error));
    int64_t wish =
        failure->retry_after_ms < RETRY_AFTER_MAX_MS ? failure->retry_after_ms : RETRY_AFTER_MAX_MS;
    return cv_queue_run(db, error,
                        "SELECT fail_job($1::uuid, $2::bigint, $3, $4, $5::boolean, $6::jsonb,"
                        " $7::bigint * interval '1 millisecond') AS outcome",
                        job->id, cv_db_number(job->token).text, cv_error_type_name(failure->type),
                        message, failure->verdict == CV_VERDICT_PERMANENT ? "false" : "true",
                        report_text, wish > 0 ? cv_db_number(wish).text : NULL);
}

int cv_queue_release(struct cv_db *db, const struct cv_job *job, const char *reason,
                     const struct cv_attempt_report *report, struct cv_error *error)
{
    cv_auto_free char *clean = NULL;
    cv_auto_free char *report_text = NULL;
    CV_TRY(cv_queue_clean_text(reason, MESSAGE_BYTES, &clean, error));
    CV_TRY(dump_report(report, &report_text, error));
    return cv_queue_run(db, error,
                        "SELECT release_job($1::uuid, $2::bigint, $3, $4::jsonb) AS outcome",
                        job->id, cv_db_number(job->token).text, clean, report_text);
}

int cv_queue_settle_canceled(struct cv_db *db, const struct cv_job *job,
                             const struct cv_attempt_report *report, struct cv_error *error)
{
    cv_auto_free char *report_text = NULL;
    CV_TRY(dump_report(report, &report_text, error));
    return cv_queue_run(db, error,
                        "SELECT settle_canceled_job($1::uuid, $2::bigint, $3::jsonb) AS outcome",
                        job->id, cv_db_number(job->token).text, report_text);
}

int cv_queue_record_artifacts(struct cv_db *db, const struct cv_job *job, const char *bucket,
                              const json_t *artifacts, struct cv_error *error)
{
    cv_auto_free char *text = NULL;
    CV_TRY(cv_queue_dump(artifacts, &text, error));
    return cv_queue_run(db, error,
                        "SELECT record_artifacts($1::uuid, $2::bigint, $3, $4::jsonb) AS outcome",
                        job->id, cv_db_number(job->token).text, bucket, text);
}
