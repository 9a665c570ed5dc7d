#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <poll.h>
#include <string.h>

/* ---- list ------------------------------------------------------------------------------------ */

#define PERCENT "round(progress * 100) || ' %' AS percent"
#define NOTE "coalesce(error_message, progress_message) AS note"

int cli_jobs_list(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"id", "JOB"},      {"job_type", "TYPE"},   {"state", "STATE"}, {"percent", "DONE"},
        {"attempt", "TRY"}, {"running_ms", "TIME"}, {"video", "VIDEO"}, {"note", "NOTE"},
    };
    cv_auto(json_decref) json_t *filter = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_read_values(call, &filter, error));
    cv_auto_free char *text = json_dumps(filter, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "a filter");
    /* The planner sees the values, so that each filter may use its index. */
    int result =
        CLI_LIST(call, columns, error,
                 "SELECT *, " NOTE ", " PERCENT " FROM job_overview"
                 " WHERE ($1::jsonb ->> 'job_type' IS NULL OR job_type = $1::jsonb ->> 'job_type')"
                 " AND ($1::jsonb ->> 'status' IS NULL OR status::text = $1::jsonb ->> 'status')"
                 " AND ($1::jsonb ->> 'video_id' IS NULL"
                 " OR video_id = ($1::jsonb ->> 'video_id')::uuid)"
                 " AND ($1::jsonb ->> 'error_type' IS NULL"
                 " OR error_type = $1::jsonb ->> 'error_type')"
                 " AND ($1::jsonb ->> 'tenant_id' IS NULL OR id IN (SELECT j.id FROM jobs j"
                 " WHERE j.tenant_id = ($1::jsonb ->> 'tenant_id')::uuid))"
                 " AND ($1::jsonb ->> 'since' IS NULL"
                 " OR created_at >= ($1::jsonb ->> 'since')::timestamptz)"
                 " ORDER BY status IN ('done', 'canceled'), sequence DESC, created_at DESC"
                 " LIMIT coalesce(($1::jsonb ->> 'limit')::bigint, 50)",
                 text);
    if (result == 0) {
        cli_print_note(call, "there are no such jobs");
    }
    return result < 0 ? result : CLI_EXIT_OK;
}

/* ---- one job --------------------------------------------------------------------------------- */

/* Prints a field of a job, without secrets that its payload, result or error may contain. */
static int print_field(const char *name, const char *value, struct cv_error *error)
{
    int columns = INT16_MAX;
    int rows = 0;
    cv_auto_free char *shown = NULL;
    int result = value && value[0] ? cv_redacted_text(value, &shown, error) : 0;
    if (shown) {
        if (isatty(STDOUT_FILENO)) {
            cli_terminal_size(STDOUT_FILENO, &columns, &rows);
            columns = columns * 4; /* four lines: a payload can be long */
        }
        (void)printf("%-14s ", name);
        cli_put_cut(stdout, shown, columns);
        (void)putchar('\n');
    }
    return result;
}

static int show_attempts(struct cli_call *call, const char *id, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"attempt", "TRY"}, {"status", "STATUS"}, {"running_ms", "TIME"},    {"exit_code", "EXIT"},
        {"cpu", "CPU s"},   {"memory", "MiB"},    {"error_type", "FAILURE"}, {"error_message", ""},
    };
    (void)putchar('\n');
    int result = CLI_LIST(call, columns, error,
                          "SELECT *, round(cpu_seconds::numeric, 1) AS cpu,"
                          " peak_memory_bytes >> 20 AS memory, round(extract(epoch FROM"
                          " coalesce(finished_at, clock_timestamp()) - started_at) * 1000)::bigint"
                          " AS running_ms FROM job_attempts WHERE job_id = $1::uuid"
                          " ORDER BY attempt",
                          id);
    return result < 0 ? result : 0;
}

static int show_events(struct cli_call *call, const char *id, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"at", "EVENT (UTC)"}, {"level", "LEVEL"}, {"source", "SOURCE"}, {"message", "MESSAGE"}};
    (void)putchar('\n');
    int result = CLI_LIST(call, columns, error,
                          "SELECT to_char(ts AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS') AS at,"
                          " source, level, message FROM task_events WHERE job_id = $1::uuid"
                          " ORDER BY ts, id",
                          id);
    return result < 0 ? result : 0;
}

/* Prints the job, its attempts and its events as one object; or only its payload. */
static int print_as_json(struct cli_call *call, const char *id, bool payload,
                         struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(payload
               ? cv_db_run(call->session.db, &rows, error,
                           "SELECT payload - 'error' AS text FROM jobs WHERE id = $1::uuid", id)
               : cv_db_run(call->session.db, &rows, error,
                           "SELECT to_jsonb(o) || jsonb_build_object('payload', j.payload,"
                           " 'result', j.result, 'attempts', (SELECT coalesce(jsonb_agg(a"
                           " ORDER BY a.attempt), '[]') FROM job_attempts a WHERE a.job_id = o.id),"
                           " 'events', (SELECT coalesce(jsonb_agg(e ORDER BY e.ts, e.id), '[]')"
                           " FROM task_events e WHERE e.job_id = o.id)) AS text"
                           " FROM job_overview o JOIN jobs j USING (id) WHERE o.id = $1::uuid",
                           id));
    if (cv_db_rows(rows) == 0) {
        return 0;
    }
    /* If only the payload is printed, it is for a worker, which needs its secrets. */
    cv_auto_free char *shown = NULL;
    const char *text = cv_db_text(rows, 0, "text");
    CV_TRY(payload ? 0 : cv_redacted_text(text, &shown, error));
    (void)puts(payload ? text : shown);
    return 0;
}

int cli_jobs_show(struct cli_call *call, struct cv_error *error)
{
    static const char *const fields[] = {
        "id",      "job_type",      "state",     "video",      "priority",      "attempt",
        "created", "scheduled_for", "locked_by", "error_type", "error_message", "encoded_because",
        "payload", "result"};
    char id[CLI_UUID_SIZE];
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_find(call, "job", call->arguments[0], id, error));
    if (call->json || cli_given(call, "payload")) {
        return print_as_json(call, id, cli_given(call, "payload"), error);
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT o.*, j.payload, j.result, o.created_at::text AS created,"
                     " j.result ->> 'encoded_because' AS encoded_because"
                     " FROM job_overview o JOIN jobs j USING (id)"
                     " WHERE id = $1::uuid",
                     id));
    if (cv_db_rows(rows) == 0) {
        return 0;
    }
    for (size_t i = 0; i < CV_COUNT(fields); i++) {
        CV_TRY(print_field(fields[i], cv_db_text(rows, 0, fields[i]), error));
    }
    CV_TRY(show_attempts(call, id, error));
    return show_events(call, id, error);
}

/* ---- watch ----------------------------------------------------------------------------------- */

/* Draws the open jobs of each type, and the running ones. */
static int draw(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column count_columns[] = {
        {"job_type", "TYPE"},     {"ready", "READY"},
        {"waiting", "WAITING"},   {"running", "RUNNING"},
        {"retrying", "RETRYING"}, {"dead", "DEAD"},
        {"oldest_ms", "OLDEST"},  {"note", ""},
    };
    static const struct cli_column job_columns[] = {
        {"id", "JOB"},          {"job_type", "TYPE"}, {"percent", "DONE"},
        {"running_ms", "TIME"}, {"video", "VIDEO"},   {"progress_message", "DOING"},
    };
    int result = CLI_LIST(call, count_columns, error,
                          "SELECT *, oldest_ready_seconds * 1000 AS oldest_ms,"
                          " CASE WHEN is_paused THEN 'paused' WHEN running >= max_running"
                          " THEN 'at its limit' END AS note FROM job_counts"
                          " WHERE is_paused OR ready + waiting + running + retrying + dead > 0"
                          " ORDER BY job_type");
    if (result == 0) {
        (void)puts("nothing is open");
    }
    (void)putchar('\n');
    return result < 0 ? result
                      : CLI_LIST(call, job_columns, error,
                                 "SELECT *, " PERCENT " FROM job_overview"
                                 " WHERE status = 'processing' ORDER BY started_at LIMIT 30");
}

int cli_jobs_watch(struct cli_call *call, struct cv_error *error)
{
    double every = 1;
    int64_t count = 0;
    const char *text = cli_value(call, "every");
    CV_TRY(cli_number(call, "count", 1, INT32_MAX, 0, &count));
    if (text && !cv_parse_double(text, 0.1, 3600, &every)) {
        return cli_usage(call, "--every takes seconds from 0.1 to 3600, not '%s'", text);
    }
    CV_TRY(cli_open(call, error));
    for (int64_t drawn = 0; count == 0 || drawn < count; drawn++) {
        struct pollfd wait = {.fd = cv_cancel_fd(call->cancel), .events = POLLIN};
        if (drawn > 0 && poll(&wait, 1, (int)(every * 1000)) > 0) {
            return CLI_EXIT_OK; /* users leave it by interrupting */
        }
        if (cli_is_terminal(STDOUT_FILENO)) {
            (void)fputs("\033[H\033[J", stdout);
        } else if (drawn > 0) {
            (void)putchar('\n');
        }
        int result = draw(call, error);
        if (result < 0) {
            return result;
        }
        (void)fflush(stdout);
    }
    return CLI_EXIT_OK;
}

/* ---- change -------------------------------------------------------------------------------------- */

/* Jobs changed in one call of a function with a filter, which is one short transaction. */
#define CHUNK "10000"
/* Retries are checked one by one, so fewer at once. */
#define RETRIES "1000"

/* A change of many jobs: `sql` changes some of those that the filter $1 names, and returns their
 * number as n. */
struct change {
    const char *sql;
    const char *one, *many; /* "1 job …", "N jobs …" */
};

/* Repeats the change until nothing is left to change, in short transactions. */
static int change_all(struct cli_call *call, const char *filter, const struct change *change,
                      struct cv_error *error)
{
    char counted[CLI_COUNTED_SIZE];
    int result = 0;
    int64_t total = 0;
    int64_t step = 1;
    cv_auto(cli_progress_deinit) struct cli_progress progress;
    cli_progress_init(&progress, call->json, false);
    while (result == 0 && step > 0) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        result = cv_db_run(call->session.db, &rows, error, change->sql, filter);
        step = result == 0 ? cv_db_int(rows, 0, "n", 0) : 0;
        total += step;
        if (step > 0) {
            cli_progress_begin(&progress);
            cli_progress_row(&progress, "so far", -1,
                             cli_counted(total, change->one, change->many, counted));
            cli_progress_end(&progress);
        }
        if (result == 0 && cv_cancel_level(call->cancel) != CV_CANCEL_NONE) {
            result = cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
    cli_progress_erase(&progress);
    (void)cli_counted(total, change->one, change->many, counted);
    if (result && total > 0) { /* finished changes stay; the same command does the rest */
        cli_print_note(call, "%s; the others are as they were", counted);
    }
    return result ? result
                  : cli_print_outcome(call, json_pack("{s:I}", "jobs", (json_int_t)total), error,
                                      "%s", counted);
}

static bool is_filtered(const struct cli_call *call)
{
    const struct cli_option *option = call->verb->options;
    while (option->name && !cli_given(call, option->name)) {
        option++;
    }
    return option->name != NULL;
}

/* Changes the job that is the verb's last argument, by its operation; or those that its options name. */
static int change_jobs(struct cli_call *call, const struct change *change, struct cv_error *error)
{
    cv_auto(json_decref) json_t *filter = NULL;
    bool has_job = call->count == call->verb->most;
    if (has_job == is_filtered(call)) {
        return cli_usage(call, has_job ? "a job, or options that name jobs, not both"
                                       : "which jobs? Name one, or say --type, --video, …");
    }
    if (has_job) {
        return cli_request(call, error);
    }
    CV_TRY(cli_open(call, error));
    if (call->server) {
        return cli_usage(call, "on a server, name one job");
    }
    CV_TRY(cli_read_values(call, &filter, error));
    cv_auto_free char *text = json_dumps(filter, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "a filter");
    return change_all(call, text, change, error);
}

int cli_jobs_cancel(struct cli_call *call, struct cv_error *error)
{
    static const struct change change = {
        .sql = "SELECT cancel_jobs($1::jsonb, " CHUNK ") AS n",
        .one = "job is canceled, or stops soon",
        .many = "jobs are canceled, or stop soon",
    };
    return change_jobs(call, &change, error);
}

int cli_jobs_retry(struct cli_call *call, struct cv_error *error)
{
    static const struct change change = {
        .sql = "SELECT retry_failed_jobs($1::jsonb ->> 'job_type', $1::jsonb ->> 'error_type',"
               " " RETRIES ") AS n",
        .one = "job is queued again",
        .many = "jobs are queued again",
    };
    return change_jobs(call, &change, error);
}

int cli_jobs_priority(struct cli_call *call, struct cv_error *error)
{
    static const struct change change = {
        .sql = "SELECT set_priority($1::jsonb - 'priority',"
               " priority_number($1::jsonb ->> 'priority'), " CHUNK ") AS n",
        .one = "job has another priority now",
        .many = "jobs have another priority now",
    };
    return change_jobs(call, &change, error);
}
