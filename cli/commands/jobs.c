#include "cli/commands/jobs.h"

#include "common/queue/queue.h"

#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <poll.h>
#include <string.h>

/* 0 if the job type exists; otherwise CLI_EXIT_USAGE after printing the existing ones. */
static int check_job_type(struct cli_call *call, const char *type, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(call->session.db, &rows, error,
                           "SELECT string_agg(name, ' ' ORDER BY name) AS names FROM job_types");
    const char *names = result ? NULL : cv_db_text(rows, 0, "names");
    if (result || cli_is_among(names ? names : "", type)) {
        return result;
    }
    const char *near = cli_did_you_mean(names ? names : "", type);
    return cli_usage(call, "there is no job type '%s'%s%s%s; there are %s", type,
                     near[0] ? ": did you mean " : "", near, near[0] ? "?" : "",
                     names ? names : "none");
}

/* Reads --type, --tenant, --video, --error and --status as members of `filter`, as the queue's
 * functions expect them. An impossible value is CLI_EXIT_USAGE. */
static int read_job_filter(struct cli_call *call, json_t *filter, struct cv_error *error)
{
    static const struct {
        const char *option, *member;
    } members[] = {{"type", "job_type"},
                   {"tenant", "tenant_id"},
                   {"video", "video_id"},
                   {"error", "error_type"},
                   {"status", "status"}};
    for (size_t i = 0; i < CV_COUNT(members); i++) {
        const char *value = cli_value(call, members[i].option);
        char video[CLI_UUID_SIZE];
        if (!value) {
            continue;
        }
        if (strcmp(members[i].option, "tenant") == 0 && !cv_is_uuid(value)) {
            return cli_usage(call, "--tenant takes a UUID, not '%s'", value);
        }
        if (strcmp(members[i].option, "type") == 0) {
            CV_TRY(check_job_type(call, value, error));
        } else if (strcmp(members[i].option, "video") == 0 && !cv_is_uuid(value)) {
            CV_TRY(cli_find(call, "video", value, video, error));
            value = video;
        }
        CV_TRY_MEMORY(json_object_set_new(filter, members[i].member, json_string(value)) == 0,
                      error, "a filter");
    }
    return 0;
}

int cli_read_since(const struct cli_call *call, char timestamp[CV_TIMESTAMP_SIZE])
{
    static const struct {
        char unit;
        int64_t ms;
    } units[] = {{'m', 60000}, {'h', 3600000}, {'d', 86400000}, {'w', 604800000}};
    const char *text = cli_value(call, "since");
    size_t length = text ? strlen(text) : 0;
    timestamp[0] = '\0';
    if (!text) {
        return 0;
    }
    for (size_t i = 0; length > 1 && length < 12 && i < CV_COUNT(units); i++) {
        char number[12];
        int64_t count = 0;
        (void)snprintf(number, sizeof(number), "%.*s", (int)length - 1, text);
        if (text[length - 1] == units[i].unit && cv_parse_int(number, 0, 100000, &count)) {
            (void)cv_format_timestamp(cv_wall_ms() - count * units[i].ms, timestamp);
            return 0;
        }
    }
    int year = 0;
    int month = 0;
    int day = 0;
    char rest = '\0';
    int found = sscanf(text, "%4d-%2d-%2d%c", &year, &month, &day, &rest);
    if (found < 3 || (found == 4 && rest != ' ' && rest != 'T') || month < 1 || month > 12 ||
        day < 1 || day > 31 || length >= CV_TIMESTAMP_SIZE) {
        return cli_usage(call,
                         "--since takes a date like 2026-05-17 or a time ago like 30m, 2h, "
                         "3d, not '%s'",
                         text);
    }
    (void)snprintf(timestamp, CV_TIMESTAMP_SIZE, "%s", text);
    return 0;
}

/* ---- list ------------------------------------------------------------------------------------ */

#define PERCENT "round(progress * 100) || ' %' AS percent"
#define NOTE "coalesce(error_message, progress_message) AS note"

int cli_jobs_list(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"id", "JOB"},      {"job_type", "TYPE"},   {"state", "STATE"}, {"percent", "DONE"},
        {"attempt", "TRY"}, {"running_ms", "TIME"}, {"video", "VIDEO"}, {"note", "NOTE"},
    };
    char since[CV_TIMESTAMP_SIZE];
    int64_t number = 0;
    cv_auto(json_decref) json_t *filter = json_object();
    CV_TRY(cli_number(call, "limit", 1, 1000000, 50, &number));
    CV_TRY(cli_read_since(call, since));
    CV_TRY(cli_open(call, error));
    CV_TRY(read_job_filter(call, filter, error));
    int result = CLI_LIST(call, columns, error,
                          "SELECT *, " NOTE ", " PERCENT " FROM job_overview"
                          " WHERE ($1::text IS NULL OR job_type = $1)"
                          " AND ($2::text IS NULL OR status::text = $2)"
                          " AND ($3::uuid IS NULL OR video_id = $3::uuid)"
                          " AND ($4::text IS NULL OR error_type = $4)"
                          " AND ($5::uuid IS NULL OR id IN (SELECT j.id FROM jobs j"
                          " WHERE j.tenant_id = $5::uuid))"
                          " AND ($6::timestamptz IS NULL OR created_at >= $6::timestamptz)"
                          " ORDER BY status IN ('done', 'canceled'), sequence DESC, created_at DESC"
                          " LIMIT $7::bigint",
                          json_string_value(json_object_get(filter, "job_type")),
                          json_string_value(json_object_get(filter, "status")),
                          json_string_value(json_object_get(filter, "video_id")),
                          json_string_value(json_object_get(filter, "error_type")),
                          json_string_value(json_object_get(filter, "tenant_id")),
                          since[0] ? since : NULL, cv_db_number(number).text);
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
    char id[CV_UUID_SIZE];
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

/* Reads the filter of a verb that accepts a job or a filter; the job would be argument `place`. */
static int open_filtered(struct cli_call *call, int place, json_t *filter, struct cv_error *error)
{
    bool has_job = call->count > place;
    CV_TRY(cli_open(call, error));
    CV_TRY(read_job_filter(call, filter, error));
    if (has_job == (json_object_size(filter) > 0)) {
        return cli_usage(call, has_job ? "a job, or options that name jobs, not both"
                                       : "which jobs? Name one, or say --type, --video, …");
    }
    return 0;
}

/* A change of many jobs: `sql` changes some of them, returns their number as n, and takes two
 * parameters. */
struct change {
    const char *sql;
    const char *parameters[2];
    const char *one, *many; /* "1 job …", "N jobs …" */
};

/* Repeats the change until nothing is left to change, in short transactions. */
static int change_all(struct cli_call *call, const struct change *change, struct cv_error *error)
{
    char counted[CLI_COUNTED_SIZE];
    int result = 0;
    int64_t total = 0;
    int64_t step = 1;
    cv_auto(cli_progress_deinit) struct cli_progress progress;
    cli_progress_init(&progress, call->json, false);
    while (result == 0 && step > 0) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        result = cv_db_run(call->session.db, &rows, error, change->sql, change->parameters[0],
                           change->parameters[1]);
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

/* The same; the first parameter is `filter`. */
static int change_filtered(struct cli_call *call, const json_t *filter, struct change change,
                           struct cv_error *error)
{
    cv_auto_free char *text = json_dumps(filter, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "a filter");
    change.parameters[0] = text;
    return change_all(call, &change, error);
}

/* Prints what happened to one job, as a sentence. */
static int print_outcome(struct cli_call *call, int outcome, const char *id, const char *success,
                         struct cv_error *error)
{
    switch (outcome) {
    case CV_QUEUE_OK:
        return cli_print_outcome(call, json_pack("{s:s, s:s}", "job", id, "outcome", success),
                                 error, "job %s is %s", id, success);
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
        const struct change change = {.sql = "SELECT cancel_jobs($1::jsonb, $2::int) AS n",
                                      .parameters = {NULL, CHUNK},
                                      .one = "job is canceled, or stops soon",
                                      .many = "jobs are canceled, or stop soon"};
        return change_filtered(call, filter, change, error);
    }
    CV_TRY(cli_find(call, "job", call->arguments[0], id, error));
    return print_outcome(call, cv_queue_cancel(call->session.db, id, error), id,
                         "canceled, or stops soon", error);
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
        const struct change change = {
            .sql = "SELECT retry_failed_jobs($1, $2, " RETRIES ") AS n",
            .parameters = {json_string_value(json_object_get(filter, "job_type")),
                           json_string_value(json_object_get(filter, "error_type"))},
            .one = "job is queued again",
            .many = "jobs are queued again",
        };
        return change_all(call, &change, error);
    }
    CV_TRY(cli_find(call, "job", call->arguments[0], id, error));
    return print_outcome(call, cv_queue_retry(call->session.db, id, error), id, "queued again",
                         error);
}

int cli_jobs_priority(struct cli_call *call, struct cv_error *error)
{
    char id[CV_UUID_SIZE];
    cv_auto(json_decref) json_t *filter = json_object();
    CV_TRY(open_filtered(call, 1, filter, error));
    if (call->count == 2) {
        CV_TRY(cli_find(call, "job", call->arguments[1], id, error));
        CV_TRY_MEMORY(json_object_set_new(filter, "id", json_string(id)) == 0, error, "a filter");
    }
    const struct change change = {
        .sql = "SELECT set_priority($1::jsonb, priority_number($2), " CHUNK ") AS n",
        .parameters = {NULL, call->arguments[0]},
        .one = "job has another priority now",
        .many = "jobs have another priority now",
    };
    return change_filtered(call, filter, change, error);
}

/* Reads which tenant or type is to be paused or resumed; 0 or CLI_EXIT_USAGE. */
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
    return *ret_tenant ? 0 : check_job_type(call, call->arguments[0], error);
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
    return cli_print_outcome(
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
    return cli_print_outcome(
        call, json_pack("{s:s, s:b}", tenant ? "tenant" : "job_type", name, "resumed", resumed),
        error, "%s %s %s", tenant ? "tenant" : "type", name,
        resumed ? "goes on" : "was not paused");
}
