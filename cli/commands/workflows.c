#include "common/queue/queue.h"

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

static int open_run(struct cli_call *call, char id[CV_UUID_SIZE], struct cv_error *error)
{
    CV_TRY(cli_open(call, error));
    return cli_find_id(call, "run", call->arguments[0], id, error);
}

int cli_runs_show(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column job_columns[] = {
        {"id", "JOB"},       {"step", "STEP"},   {"part", "PART"},       {"state", "STATE"},
        {"percent", "DONE"}, {"attempt", "TRY"}, {"running_ms", "TIME"}, {"note", "NOTE"},
    };
    char id[CV_UUID_SIZE];
    int result = open_run(call, id, error);
    if (result == 0 && !call->json) {
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

int cli_runs_start(struct cli_call *call, struct cv_error *error)
{
    json_error_t reason;
    const char *text = cli_value(call, "input");
    const char *name = cli_value(call, "video");
    cv_auto(json_decref) json_t *input = text ? json_loads(text, 0, &reason) : NULL;
    if (text && !json_is_object(input)) {
        return cli_usage(call, "--input takes a JSON object%s%s", input ? "" : ": ",
                         input ? "" : reason.text);
    }
    char video[CLI_UUID_SIZE] = "";
    char id[CV_UUID_SIZE];
    CV_TRY(cli_open(call, error));
    if (name) {
        CV_TRY(cli_find_video(call->session.db, name, video, error));
    }
    const struct cv_run_params params = {
        .workflow = call->arguments[0],
        .video_id = video[0] ? video : NULL,
        .input = input,
        .priority = -1,
    };
    int result = cv_queue_start_run(call->session.db, &params, id, error);
    if (result < 0) {
        return result;
    }
    bool is_new = result != CV_QUEUE_DUPLICATE;
    return cli_print_outcome(call, json_pack("{s:s, s:b}", "run", id, "is_new", is_new), error,
                             is_new ? "run %s has started" : "run %s is on its way already", id);
}

int cli_runs_restart(struct cli_call *call, struct cv_error *error)
{
    char id[CV_UUID_SIZE];
    int64_t count = 0;
    CV_TRY(open_run(call, id, error));
    int result = cv_queue_restart_run(call->session.db, id, &count, error);
    if (result == CV_QUEUE_NO_SUCH_JOB) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "run %s is gone", id);
    }
    char jobs[CLI_COUNTED_SIZE];
    return result ? result
                  : cli_print_outcome(
                        call, json_pack("{s:s, s:I}", "run", id, "jobs", (json_int_t)count), error,
                        "%s",
                        cli_counted(count, "job is queued again", "jobs are queued again", jobs));
}

int cli_runs_cancel(struct cli_call *call, struct cv_error *error)
{
    char id[CV_UUID_SIZE];
    CV_TRY(open_run(call, id, error));
    int result = cv_queue_cancel_run(call->session.db, id, error);
    if (result == CV_QUEUE_WRONG_STATE) {
        return cv_fail(error, CV_ERROR_CONFLICT, "nothing of run %s is left to cancel", id);
    }
    return result
               ? result
               : cli_print_outcome(call, json_pack("{s:s, s:s}", "run", id, "outcome", "canceled"),
                                   error, "run %s is canceled, or stops soon", id);
}

/* ---- workflows ------------------------------------------------------------------------------- */

int cli_workflows_list(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "WORKFLOW"},   {"version", "VERSION"},         {"steps", "STEPS"},
        {"running", "RUNNING"}, {"description", "DESCRIPTION"},
    };
    return CLI_SHOW(call, columns, NULL, error,
                    "SELECT name, version, jsonb_array_length(steps) AS steps,"
                    " description, (SELECT count(*) FROM runs r WHERE r.workflow = name"
                    " AND r.status = 'running') AS running"
                    " FROM workflows WHERE is_active ORDER BY name");
}

/* Prints the column `text` of the one row that `sql` finds for `name`. */
static int print_text(struct cli_call *call, const char *sql, const char *name, const char *thing,
                      struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, &rows, error, sql, name));
    if (cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "no %s is called '%s'", thing, name);
    }
    (void)puts(cv_db_text(rows, 0, "text"));
    return 0;
}

int cli_workflows_show(struct cli_call *call, struct cv_error *error)
{
    return print_text(call,
                      "SELECT jsonb_pretty(steps) AS text FROM workflows"
                      " WHERE name = $1 AND is_active",
                      call->arguments[0], "workflow", error);
}

/* Reads a JSON document from a file, "-" for standard input, as text. */
static int read_json(const char *path, char **ret_text, struct cv_error *error)
{
    json_error_t problem;
    cv_auto(json_decref) json_t *given =
        strcmp(path, "-") == 0 ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &problem)
                               : json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (!given) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s, line %d: %s", path, problem.line,
                       problem.text);
    }
    *ret_text = json_dumps(given, JSON_COMPACT);
    return *ret_text ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %s", path);
}

/* The database checks the steps; this only sees that they are JSON. */
int cli_workflows_add(struct cli_call *call, struct cv_error *error)
{
    const char *name = call->arguments[0];
    cv_auto_free char *text = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(read_json(call->arguments[1], &text, error));
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "INSERT INTO workflows (name, steps) VALUES ($1, $2::jsonb)"
                     " RETURNING version",
                     name, text));
    int64_t version = cv_db_int(rows, 0, "version", 0);
    return cli_print_outcome(
        call, json_pack("{s:s, s:I}", "workflow", name, "version", (json_int_t)version), error,
        "%s version %lld is active", name, (long long)version);
}

/* ---- commands -------------------------------------------------------------------------------- */

int cli_commands_list(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {{"key", "COMMAND"},
                                                {"for_whom", "FOR"},
                                                {"time_limit", "LIMIT"},
                                                {"description", "WHAT IT DOES"}};
    return CLI_SHOW(call, columns, NULL, error,
                    "SELECT *, CASE WHEN NOT is_enabled THEN 'nobody' WHEN is_public THEN"
                    " 'applications' ELSE 'operators' END AS for_whom"
                    " FROM job_definitions ORDER BY key");
}

int cli_commands_show(struct cli_call *call, struct cv_error *error)
{
    return print_text(call,
                      "SELECT jsonb_pretty(to_jsonb(d) - 'created_at' - 'updated_at') AS text"
                      " FROM job_definitions d WHERE key = $1",
                      call->arguments[0], "command", error);
}

/* Defines a command from an object as printed by `show`; missing members keep their value, or the
 * default. */
int cli_commands_define(struct cli_call *call, struct cv_error *error)
{
    cv_auto_free char *text = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(read_json(call->arguments[0], &text, error));
    if (text[0] != '{') {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s holds no JSON object",
                       call->arguments[0]);
    }
    CV_TRY(cli_open(call, error));
    CV_TRY(
        cv_db_run(call->session.db, &rows, error, "SELECT define_command($1::jsonb) AS key", text));
    const char *key = cv_db_text(rows, 0, "key");
    return cli_print_outcome(call, json_pack("{s:s, s:s}", "command", key, "outcome", "defined"),
                             error, "%s is defined", key);
}

/* Runs "commands enable KEY" and "commands disable KEY". */
int cli_commands_enable(struct cli_call *call, struct cv_error *error)
{
    bool is_enabled = strcmp(call->verb->name, "commands enable") == 0;
    const struct cli_change change = {
        .thing = "command",
        .sql = "UPDATE job_definitions SET is_enabled = $2::boolean WHERE key = $1"
               " RETURNING key",
        .more = is_enabled ? "true" : "false",
        .done = is_enabled ? "may be run" : "may not be run",
    };
    return cli_change(call, &change, error);
}

/* Waits until the job has ended; prints its result on standard output. */
static int wait_for(struct cli_call *call, const char *job_id, struct cv_error *error)
{
    for (;;) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        CV_TRY(cv_db_run(call->session.db, &rows, error,
                         "SELECT status, result, status IN ('done', 'canceled')"
                         " OR (status = 'failed' AND scheduled_for IS NULL) AS is_over,"
                         " payload #>> '{error,message}' AS message"
                         " FROM jobs WHERE id = $1::uuid",
                         job_id));
        if (cv_db_rows(rows) == 0) {
            return cv_fail(error, CV_ERROR_NOT_FOUND, "job %s is gone", job_id);
        }
        const char *status = cv_db_text(rows, 0, "status");
        if (cv_db_bool(rows, 0, "is_over")) {
            const char *answer = cv_db_text(rows, 0, "result");
            if (strcmp(status, "done") != 0) {
                const char *message = cv_db_text(rows, 0, "message");
                return cv_fail(error, CV_ERROR_SERVER, "job %s: %s", job_id,
                               message ? message : status);
            }
            (void)puts(answer ? answer : "{}");
            return 0;
        }
        struct pollfd stop = {.fd = cv_cancel_fd(call->cancel), .events = POLLIN};
        if (poll(&stop, 1, WAIT_POLL_MS) > 0) {
            return CLI_EXIT_INTERRUPTED;
        }
    }
}

int cli_commands_run(struct cli_call *call, struct cv_error *error)
{
    const char *args = cli_value(call, "args");
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT job_id FROM run_command($1, $2::jsonb)", call->arguments[0],
                     args ? args : "{}"));
    const char *job_id = cv_db_text(rows, 0, "job_id");
    return cli_given(call, "wait")
               ? wait_for(call, job_id, error)
               : cli_print_outcome(call, json_pack("{s:s}", "job", job_id), error, "%s", job_id);
}
