#include "cli/jobs.h"

#include <string.h>
#include <unistd.h>

/* Jobs of one call of a function that works by filter: a short transaction each. */
#define CHUNK "10000"
/* Retries are looked at one by one. */
#define RETRIES "1000"

enum {
    PROGRESS_EVERY_MS = 1000,
};

/* Says on standard error how far a long change is: redrawn on a terminal, a line each elsewhere. */
struct progress {
    int64_t told_at_ms;
    bool is_terminal;
    bool is_shown;
};

static void show_progress(struct progress *progress, int64_t total, const char *sentence)
{
    int64_t now_ms = cv_monotonic_ms();
    if (total == 0 || now_ms < progress->told_at_ms + PROGRESS_EVERY_MS) {
        return;
    }
    (void)fprintf(stderr, "%sso far %lld jobs %s%s", progress->is_terminal ? "\r" : "",
                  (long long)total, sentence, progress->is_terminal ? "" : "\n");
    (void)fflush(stderr);
    progress->told_at_ms = now_ms;
    progress->is_shown = true;
}

/* Calls until nothing is left to change, a short transaction each; `sql` has a column n and takes
 * two parameters. */
static int change_all(struct cli_session *session, const struct cli_jobs_request *request,
                      const char *sql, const char *first, const char *second, const char *sentence,
                      struct cv_error *error)
{
    int result = 0;
    struct progress progress = {.told_at_ms = cv_monotonic_ms(),
                                .is_terminal = isatty(STDERR_FILENO) == 1};
    int64_t total = 0;
    int64_t step = 1;
    while (result == 0 && step > 0) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        result = cv_db_run(session->db, &rows, error, sql, first, second);
        step = result == 0 ? cv_db_int(rows, 0, "n", 0) : 0;
        total += step;
        show_progress(&progress, step > 0 ? total : 0, sentence);
        if (result == 0 && cv_cancel_level(request->cancel) != CV_CANCEL_NONE) {
            result = cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
    if (progress.is_shown && progress.is_terminal) {
        (void)fputc('\n', stderr);
    }
    if (result == 0) {
        (void)printf("%lld jobs %s\n", (long long)total, sentence);
    } else if (total > 0) { /* what is done is done; the same command does the rest */
        (void)printf("%lld jobs %s; the others are as they were\n", (long long)total, sentence);
    }
    return result;
}

static int change_filtered(struct cli_session *session, const struct cli_jobs_request *request,
                           const char *sql, const char *more, const char *sentence,
                           struct cv_error *error)
{
    cv_auto_free char *filter = json_dumps(request->filter, JSON_COMPACT);
    return filter ? change_all(session, request, sql, filter, more, sentence, error)
                  : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a filter");
}

/* What became of one job, as a sentence. */
static int tell(int outcome, const char *id, const char *success, struct cv_error *error)
{
    switch (outcome) {
    case CV_QUEUE_OK:
        (void)printf("job %s is %s\n", id, success);
        return 0;
    case CV_QUEUE_WRONG_STATE:
        return cv_fail(error, CV_ERROR_CONFLICT, "the state of job %s forbids this", id);
    case CV_QUEUE_DUPLICATE:
        return cv_fail(error, CV_ERROR_CONFLICT, "the work of job %s is under way already", id);
    case CV_QUEUE_NO_SUCH_JOB:
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "job %s is gone", id);
    default:
        return outcome;
    }
}

int cli_jobs_cancel(struct cli_session *session, const struct cli_jobs_request *request,
                    struct cv_error *error)
{
    if (!request->arguments[0]) {
        return change_filtered(session, request, "SELECT cancel_jobs($1::jsonb, $2::int) AS n",
                               CHUNK, "are canceled, or stop soon", error);
    }
    char id[CV_UUID_SIZE];
    int result = cli_find_job(session, request->arguments[0], id, error);
    return result ? result
                  : tell(cv_queue_cancel(session->db, id, error), id, "canceled, or stops soon",
                         error);
}

int cli_jobs_retry(struct cli_session *session, const struct cli_jobs_request *request,
                   struct cv_error *error)
{
    if (request->arguments[0]) {
        char id[CV_UUID_SIZE];
        int result = cli_find_job(session, request->arguments[0], id, error);
        return result ? result
                      : tell(cv_queue_retry(session->db, id, error), id, "queued again", error);
    }
    const char *job_type = json_string_value(json_object_get(request->filter, "job_type"));
    const char *failure = json_string_value(json_object_get(request->filter, "error_type"));
    return change_all(session, request, "SELECT retry_failed_jobs($1, $2, " RETRIES ") AS n",
                      request->failed_type ? request->failed_type : job_type, failure,
                      "are queued again", error);
}

int cli_jobs_priority(struct cli_session *session, const struct cli_jobs_request *request,
                      struct cv_error *error)
{
    if (request->arguments[1]) {
        char id[CV_UUID_SIZE];
        int result = cli_find_job(session, request->arguments[1], id, error);
        if (result) {
            return result;
        }
        if (json_object_set_new(request->filter, "id", json_string(id)) != 0) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a filter");
        }
    }
    return change_filtered(session, request,
                           "SELECT set_priority($1::jsonb, $2::int, " CHUNK ") AS n",
                           request->arguments[0], "have another priority now", error);
}

int cli_jobs_pause(struct cli_session *session, const struct cli_jobs_request *request,
                   struct cv_error *error)
{
    const char *tenant = json_string_value(json_object_get(request->filter, "tenant_id"));
    const char *job_type = request->arguments[0];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = tenant ? cv_db_run(session->db, &rows, error,
                                    "SELECT true AS known FROM pause_tenant($1::uuid, $2)", tenant,
                                    request->reason)
                        : cv_db_run(session->db, &rows, error, "SELECT pause_type($1, $2) AS known",
                                    job_type, request->reason);
    if (result == 0 && !cv_db_bool(rows, 0, "known")) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "no job type is '%s'", job_type);
    }
    if (result == 0) {
        (void)printf("%s %s is paused; what runs goes on\n", tenant ? "tenant" : "type",
                     tenant ? tenant : job_type);
    }
    return result;
}

int cli_jobs_resume(struct cli_session *session, const struct cli_jobs_request *request,
                    struct cv_error *error)
{
    const char *tenant = json_string_value(json_object_get(request->filter, "tenant_id"));
    const char *name = tenant ? tenant : request->arguments[0];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           tenant ? "SELECT resume_tenant($1::uuid) AS resumed"
                                  : "SELECT resume_type($1) AS resumed",
                           name);
    if (result == 0) {
        bool resumed = cv_db_bool(rows, 0, "resumed");
        (void)printf("%s %s %s\n", tenant ? "tenant" : "type", name,
                     resumed ? "goes on" : "was not paused");
    }
    return result;
}
