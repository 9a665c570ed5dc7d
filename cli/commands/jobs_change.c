#include "cli/commands/jobs.h"
#include "cli/commands/verbs.h"

#include <string.h>

/* Jobs of one call of a function that works by filter: a short transaction each. */
#define CHUNK "10000"
/* Retries are looked at one by one. */
#define RETRIES "1000"

/* Reads the filter of a verb that takes a job or a filter; the job would be argument `place`. */
static int open_filtered(struct cli_call *call, int place, json_t *filter, struct cv_error *error)
{
    bool has_job = call->count > place;
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_read_job_filter(call, filter, error));
    if (has_job == (json_object_size(filter) > 0)) {
        return cli_usage(call, has_job ? "a job, or options that name jobs, not both"
                                       : "which jobs? Name one, or say --type, --video, …");
    }
    return 0;
}

/* Calls until nothing is left to change, a short transaction each; `sql` has a column n and takes
 * two parameters. */
static int change_all(struct cli_call *call, const char *sql, const char *first, const char *second,
                      const char *sentence, struct cv_error *error)
{
    int result = 0;
    int64_t total = 0;
    int64_t step = 1;
    cv_auto(cli_progress_deinit) struct cli_progress progress;
    cli_progress_init(&progress, call->json, false);
    while (result == 0 && step > 0) {
        char note[128];
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        result = cv_db_run(call->session.db, &rows, error, sql, first, second);
        step = result == 0 ? cv_db_int(rows, 0, "n", 0) : 0;
        total += step;
        if (step > 0) {
            (void)snprintf(note, sizeof(note), "%lld jobs %s", (long long)total, sentence);
            cli_progress_begin(&progress);
            cli_progress_row(&progress, "so far", -1, note);
            cli_progress_end(&progress);
        }
        if (result == 0 && cv_cancel_level(call->cancel) != CV_CANCEL_NONE) {
            result = cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
    cli_progress_erase(&progress);
    if (result && total > 0) { /* what is done is done; the same command does the rest */
        cli_note(call, "%lld jobs %s; the others are as they were", (long long)total, sentence);
    }
    return result ? result
                  : cli_tell(call, json_pack("{s:I}", "jobs", (json_int_t)total), error,
                             "%lld jobs %s", (long long)total, sentence);
}

static int change_filtered(struct cli_call *call, const json_t *filter, const char *sql,
                           const char *more, const char *sentence, struct cv_error *error)
{
    cv_auto_free char *text = json_dumps(filter, JSON_COMPACT);
    return text ? change_all(call, sql, text, more, sentence, error)
                : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a filter");
}

/* What became of one job, as a sentence. */
static int tell(struct cli_call *call, int outcome, const char *id, const char *success,
                struct cv_error *error)
{
    switch (outcome) {
    case CV_QUEUE_OK:
        return cli_tell(call, json_pack("{s:s, s:s}", "job", id, "outcome", success), error,
                        "job %s is %s", id, success);
    case CV_QUEUE_WRONG_STATE:
        return cv_fail(error, CV_ERROR_CONFLICT, "the state of job %s forbids this", id);
    case CV_QUEUE_DUPLICATE:
        return cv_fail(error, CV_ERROR_CONFLICT, "the work of job %s is under way already", id);
    case CV_QUEUE_NO_SUCH_JOB:
        return cv_fail(error, CV_ERROR_NOT_FOUND, "job %s is gone", id);
    default:
        return outcome;
    }
}

int cli_jobs_cancel(struct cli_call *call, struct cv_error *error)
{
    char id[CV_UUID_SIZE];
    cv_auto(json_decref) json_t *filter = json_object();
    CV_TRY(open_filtered(call, 0, filter, error));
    if (call->count == 0) {
        return change_filtered(call, filter, "SELECT cancel_jobs($1::jsonb, $2::int) AS n", CHUNK,
                               "are canceled, or stop soon", error);
    }
    CV_TRY(cli_find_job(call, call->arguments[0], id, error));
    return tell(call, cv_queue_cancel(call->session.db, id, error), id, "canceled, or stops soon",
                error);
}

int cli_jobs_retry(struct cli_call *call, struct cv_error *error)
{
    char id[CV_UUID_SIZE];
    cv_auto(json_decref) json_t *filter = json_object();
    if (cli_given(call, "tenant") || cli_given(call, "video") || cli_given(call, "status")) {
        return cli_usage(call, "retry looks at failed jobs by --type and --error alone");
    }
    CV_TRY(open_filtered(call, 0, filter, error));
    if (call->count == 0) {
        return change_all(call, "SELECT retry_failed_jobs($1, $2, " RETRIES ") AS n",
                          json_string_value(json_object_get(filter, "job_type")),
                          json_string_value(json_object_get(filter, "error_type")),
                          "are queued again", error);
    }
    CV_TRY(cli_find_job(call, call->arguments[0], id, error));
    return tell(call, cv_queue_retry(call->session.db, id, error), id, "queued again", error);
}

int cli_jobs_priority(struct cli_call *call, struct cv_error *error)
{
    char id[CV_UUID_SIZE];
    cv_auto(json_decref) json_t *filter = json_object();
    CV_TRY(open_filtered(call, 1, filter, error));
    if (call->count == 2) {
        CV_TRY(cli_find_job(call, call->arguments[1], id, error));
        CV_TRY_MEMORY(json_object_set_new(filter, "id", json_string(id)) == 0, error, "a filter");
    }
    return change_filtered(call, filter,
                           "SELECT set_priority($1::jsonb, priority_number($2), " CHUNK ") AS n",
                           call->arguments[0], "have another priority now", error);
}

/* The tenant or the type that is to be paused or to go on; 0 or CLI_EXIT_USAGE. */
static int open_paused(struct cli_call *call, const char **ret_tenant, struct cv_error *error)
{
    *ret_tenant = cli_value(call, "tenant");
    if ((*ret_tenant != NULL) == (call->count > 0)) {
        return cli_usage(call, "name a job type, or --tenant UUID");
    }
    if (*ret_tenant && !cv_is_uuid(*ret_tenant)) {
        return cli_usage(call, "--tenant takes a UUID, not '%s'", *ret_tenant);
    }
    CV_TRY(cli_open(call, error));
    return *ret_tenant ? 0 : cli_check_job_type(call, call->arguments[0], error);
}

int cli_jobs_pause(struct cli_call *call, struct cv_error *error)
{
    const char *tenant = NULL;
    const char *reason = cli_value(call, "reason");
    CV_TRY(open_paused(call, &tenant, error));
    const char *name = tenant ? tenant : call->count > 0 ? call->arguments[0] : "";
    CV_TRY(tenant ? cv_db_run(call->session.db, NULL, error,
                              "SELECT FROM pause_tenant($1::uuid, $2)", tenant, reason)
                  : cv_db_run(call->session.db, NULL, error, "SELECT pause_type($1, $2)", name,
                              reason));
    return cli_tell(
        call, json_pack("{s:s, s:s}", tenant ? "tenant" : "job_type", name, "outcome", "paused"),
        error, "%s %s is paused; what runs goes on", tenant ? "tenant" : "type", name);
}

int cli_jobs_resume(struct cli_call *call, struct cv_error *error)
{
    const char *tenant = NULL;
    CV_TRY(open_paused(call, &tenant, error));
    const char *name = tenant ? tenant : call->count > 0 ? call->arguments[0] : "";
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     tenant ? "SELECT resume_tenant($1::uuid) AS resumed"
                            : "SELECT resume_type($1) AS resumed",
                     name));
    bool resumed = cv_db_bool(rows, 0, "resumed");
    return cli_tell(
        call, json_pack("{s:s, s:b}", tenant ? "tenant" : "job_type", name, "resumed", resumed),
        error, "%s %s %s", tenant ? "tenant" : "type", name,
        resumed ? "goes on" : "was not paused");
}
