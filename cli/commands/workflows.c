#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <poll.h>
#include <string.h>

enum { WAIT_POLL_MS = 200 };

/* ---- runs ------------------------------------------------------------------------------------ */

static const struct cli_column run_columns[] = {
    {"id", "RUN"},          {"workflow", "WORKFLOW"}, {"status", "STATE"},    {"steps", "JOBS"},
    {"running_ms", "TIME"}, {"video", "VIDEO"},       {"note", "AT, OR WHY"},
};

#define RUN_NOTE                                                     \
    " coalesce(failed_step || ': ' || error_message,"                \
    " CASE WHEN status = 'running' THEN current_steps END) AS note," \
    " done || '/' || jobs AS steps"

int cli_runs_list(struct cli_call *call, struct cv_error *error)
{
    return CLI_SHOW(call, run_columns, NULL, error,
                    "SELECT *," RUN_NOTE " FROM run_overview"
                    " ORDER BY status <> 'running', created_at DESC LIMIT 50");
}

int cli_runs_show(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column job_columns[] = {
        {"id", "JOB"},       {"step", "STEP"},   {"part", "PART"},       {"state", "STATE"},
        {"percent", "DONE"}, {"attempt", "TRY"}, {"running_ms", "TIME"}, {"note", "NOTE"},
    };
    char id[CLI_UUID_SIZE];
    int result = 0;
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_find(call, "run", call->arguments[0], id, error));
    if (!call->json) {
        result = CLI_LIST(call, run_columns, error,
                          "SELECT *," RUN_NOTE " FROM run_overview WHERE id = $1::uuid", id);
        (void)putchar('\n');
    }
    if (result < 0) {
        return result;
    }
    /* In the order of the workflow's steps, whatever their state. */
    result = CLI_LIST(call, job_columns, error,
                      "SELECT o.*, j.step, j.part, round(o.progress * 100) || ' %' AS percent,"
                      " coalesce(o.error_message, o.progress_message) AS note"
                      " FROM job_overview o JOIN jobs j USING (id) JOIN runs r ON r.id = j.run_id"
                      " LEFT JOIN workflows w ON w.name = r.workflow AND w.version = r.version"
                      " LEFT JOIN LATERAL (SELECT s.n FROM jsonb_array_elements(w.steps)"
                      " WITH ORDINALITY AS s (step, n) WHERE s.step ->> 'key' = j.step) AS place"
                      " ON true WHERE j.run_id = $1::uuid"
                      " ORDER BY place.n, j.part NULLS FIRST, j.created_at, j.id LIMIT 500",
                      id);
    return result < 0 ? result : CLI_EXIT_OK;
}

/* ---- commands -------------------------------------------------------------------------------- */

/* Waits until the job has ended; prints its result on standard output. */
static int wait_for(struct cli_call *call, const char *job_id, struct cv_error *error)
{
    cv_auto(json_decref) json_t *values = json_pack("{s:s}", "id", job_id);
    CV_TRY_MEMORY(values, error, "a request");
    for (;;) {
        cv_auto(json_decref) json_t *job = NULL;
        CV_TRY(cli_ask(call, "job", values, &job, error));
        const char *status = json_string_value(json_object_get(job, "status"));
        if (status && strcmp(status, "done") == 0) {
            const json_t *result = json_object_get(job, "result");
            cv_auto_free char *text =
                json_dumps(json_is_null(result) ? values : result, JSON_COMPACT | JSON_ENCODE_ANY);
            CV_TRY_MEMORY(text, error, "the result");
            (void)puts(json_is_null(result) ? "{}" : text);
            return 0;
        }
        bool is_over = status && (strcmp(status, "canceled") == 0 ||
                                  (strcmp(status, "failed") == 0 &&
                                   json_is_null(json_object_get(job, "scheduled_for"))));
        if (is_over) {
            const char *message = json_string_value(cli_find_member(job, "error.message"));
            return cv_fail(error, CV_ERROR_SERVER, "job %s: %s", job_id,
                           message ? message : status);
        }
        struct pollfd stop = {.fd = cv_cancel_fd(call->cancel), .events = POLLIN};
        if (poll(&stop, 1, WAIT_POLL_MS) > 0) {
            return CLI_EXIT_INTERRUPTED;
        }
    }
}

int cli_commands_run(struct cli_call *call, struct cv_error *error)
{
    cv_auto(json_decref) json_t *values = NULL;
    cv_auto(json_decref) json_t *body = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_read_values(call, &values, error));
    CV_TRY(cli_ask(call, "create_job", values, &body, error));
    const char *job_id = json_string_value(json_object_get(body, "id"));
    return cli_given(call, "wait")
               ? wait_for(call, job_id, error)
               : cli_print_outcome(call, json_pack("{s:s}", "job", job_id), error, "%s", job_id);
}
