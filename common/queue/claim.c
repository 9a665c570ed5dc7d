#include "common/queue/calls.h"

#include <string.h>

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
    copy_uuid(job->correlation_id, cv_db_text(rows, row, "correlation_id"));
    job->token = cv_db_int(rows, row, "lease_token", 0);
    job->sequence = cv_db_int(rows, row, "sequence", 0);
    job->priority = (int)cv_db_int(rows, row, "priority", 0);
    job->attempt = (int)cv_db_int(rows, row, "attempt", 0);
    job->retry_count = (int)cv_db_int(rows, row, "retry_count", 0);
    job->time_limit_ms = cv_db_int(rows, row, "time_limit_ms", 0);
    job->waited_ms = cv_db_int(rows, row, "waited_ms", 0);
    job->job_type = strdup(cv_db_text(rows, row, "job_type"));
    if (!job->job_type) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a job");
    }
    json_error_t reason;
    job->payload = json_loads(cv_db_text(rows, row, "payload"), JSON_DECODE_ANY, &reason);
    if (!job->payload) { /* nested too deeply, say: this job fails, its neighbours do not */
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
        int result = read_job(rows, (int)i, &list->jobs[i], error);
        if (result) {
            return result;
        }
    }
    return 0;
}

int cv_queue_claim(struct cv_db *db, const char *worker_id, const char *job_type, int limit,
                   int64_t lease_ms, struct cv_job_list *ret_list, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_queue_rows(
        db, &rows, error,
        "SELECT j.id, j.video_id, j.correlation_id, j.job_type, j.payload, j.lease_token,"
        "       j.sequence, j.priority, j.attempt, j.retry_count,"
        "       (SELECT extract(epoch FROM t.time_limit) * 1000 FROM job_types t"
        "        WHERE t.name = j.job_type)::bigint AS time_limit_ms,"
        "       (extract(epoch FROM j.started_at - j.ready_at) * 1000)::bigint"
        "           AS waited_ms"
        " FROM claim_jobs($1, $2, $3::int, $4::bigint * interval '1 millisecond')"
        "      WITH ORDINALITY AS j"
        " ORDER BY j.ordinality",
        worker_id, job_type, cv_queue_number(limit).text, cv_queue_number(lease_ms).text);
    if (result) {
        return result;
    }
    if (cv_db_rows(rows) == 0) {
        return CV_QUEUE_EMPTY;
    }
    cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
    result = read_jobs(rows, &list, error);
    if (result) {
        return result;
    }
    *ret_list = list;
    list = (struct cv_job_list){NULL, 0};
    return 0;
}

int cv_queue_renew(struct cv_db *db, const char *job_id, int64_t token, int64_t lease_ms,
                   struct cv_error *error)
{
    return cv_queue_run(db, error,
                        "SELECT renew_lease($1::uuid, $2::bigint,"
                        " $3::bigint * interval '1 millisecond') AS outcome",
                        job_id, cv_queue_number(token).text, cv_queue_number(lease_ms).text);
}

int cv_queue_progress(struct cv_db *db, const char *job_id, int64_t token, double fraction,
                      const char *doing, struct cv_error *error)
{
    enum { LONGEST = 400 };
    char number[32];
    double bounded = fraction > 0 ? (fraction < 1 ? fraction : 1) : 0; /* a NaN becomes 0 */
    (void)snprintf(number, sizeof(number), "%.6f", bounded);
    cv_auto_free char *clean = NULL;
    int result = cv_queue_clean_text(doing, LONGEST, &clean, error);
    if (result) {
        return result;
    }
    return cv_queue_run(db, error,
                        "SELECT report_progress($1::uuid, $2::bigint, $3::real, $4) AS outcome",
                        job_id, cv_queue_number(token).text, number, clean);
}
