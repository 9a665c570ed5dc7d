#include "common/queue/calls.h"

#include <string.h>

int cv_queue_cancel(struct cv_db *db, const char *job_id, struct cv_error *error)
{
    return cv_queue_run(db, error, "SELECT cancel_job($1::uuid) AS outcome", job_id);
}

int cv_queue_retry(struct cv_db *db, const char *job_id, struct cv_error *error)
{
    return cv_queue_run(db, error, "SELECT retry_job($1::uuid) AS outcome", job_id);
}

int cv_queue_retry_failed(struct cv_db *db, const char *job_type, int64_t *ret_count,
                          struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(db, &rows, error, "SELECT retry_failed_jobs($1) AS retried", job_type);
    if (result == 0) {
        *ret_count = cv_db_int(rows, 0, "retried", 0);
    }
    return result;
}

void cv_queue_name_worker(char *host, size_t host_size, char *id, size_t id_size)
{
    char boot[40] = "unknown";
    cv_auto_file FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && fgets(boot, sizeof(boot), file)) {
        boot[strcspn(boot, "\n")] = '\0';
    }
    host[host_size - 1] = '\0';
    if (gethostname(host, host_size - 1) != 0) {
        (void)snprintf(host, host_size, "unknown");
    }
    (void)snprintf(id, id_size, "%s:%d:%s", host, (int)getpid(), boot);
}

int cv_queue_report_worker(struct cv_db *db, const struct cv_worker_state *state,
                           struct cv_error *error)
{
    return cv_queue_run(db, error,
                        "SELECT report_worker($1, $2, $3, ARRAY[$4], $5::int, $6::int, $7)"
                        " AS outcome",
                        state->id, state->host, CV_VERSION, state->job_type,
                        cv_queue_number(state->slots).text, cv_queue_number(state->running).text,
                        state->state);
}

int cv_queue_report_disk(struct cv_db *db, const char *host, const char *path, int64_t total_bytes,
                         int64_t free_bytes, struct cv_error *error)
{
    return cv_db_run(db, NULL, error, "SELECT report_disk($1, $2, $3::bigint, $4::bigint)", host,
                     path, cv_queue_number(total_bytes).text, cv_queue_number(free_bytes).text);
}
