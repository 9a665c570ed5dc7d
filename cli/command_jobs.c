#include "common/queue/queue.h"

#include "cli/command.h"
#include "cli/session.h"
#include "cli/text.h"

#include <getopt.h>
#include <string.h>

enum { FIELD_COLUMNS = 600 }; /* some lines; a payload can be megabytes */
#define LIST_LIMIT "50"       /* a screen or two; older ones are in the table */

static const char *text_or(const struct cv_db_result *rows, int row, const char *column,
                           const char *fallback)
{
    const char *text = cv_db_text(rows, row, column);
    return text ? text : fallback;
}

static const char *running_time(const struct cv_db_result *rows, int row, char text[CLI_TIME_SIZE])
{
    return cv_db_text(rows, row, "running_ms")
               ? cli_duration(cv_db_int(rows, row, "running_ms", 0), text)
               : "";
}

static int list(struct cli_session *session, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT *, CASE WHEN error_type IS NULL THEN progress_message"
                           " ELSE error_type || ': ' || error_message END AS note,"
                           " round(progress * 100) || ' %' AS percent"
                           " FROM job_overview ORDER BY status IN ('done', 'canceled'),"
                           " sequence DESC, created_at DESC LIMIT " LIST_LIMIT);
    if (result) {
        return result;
    }
    (void)printf("%-8s  %-13s  %-10s  %-5s  %-3s  %-8s  %-18s  %s\n", "JOB", "TYPE", "STATE",
                 "DONE", "TRY", "TIME", "VIDEO", "NOTE");
    for (int i = 0; i < cv_db_rows(rows); i++) {
        char duration[CLI_TIME_SIZE];
        (void)printf("%.8s  ", cv_db_text(rows, i, "id"));
        cli_put_column(stdout, cv_db_text(rows, i, "job_type"), 15);
        cli_put_column(stdout, cv_db_text(rows, i, "state"), 12);
        cli_put_column(stdout, cv_db_text(rows, i, "percent"), 7);
        cli_put_column(stdout, cv_db_text(rows, i, "attempt"), 5);
        cli_put_column(stdout, running_time(rows, i, duration), 10);
        cli_put_column(stdout, text_or(rows, i, "video", ""), 18);
        (void)fputs("  ", stdout);
        cli_put_cut(stdout, text_or(rows, i, "note", ""), 18);
        (void)putchar('\n');
    }
    return 0;
}

/* A job by its id or the beginning of one. */
static int find_job(struct cli_session *session, const char *name, char id[CV_UUID_SIZE],
                    struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(session->db, &rows, error,
                  "SELECT id FROM jobs WHERE starts_with(id::text, lower($1)) LIMIT 2", name);
    if (result) {
        return result;
    }
    if (cv_db_rows(rows) != 1) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND,
                       cv_db_rows(rows) == 0 ? "no job is '%s'"
                                             : "several jobs begin with '%s': give more of the id",
                       name);
    }
    (void)snprintf(id, CV_UUID_SIZE, "%s", cv_db_text(rows, 0, "id"));
    return 0;
}

static void print_field(const char *name, const char *value)
{
    if (value && value[0] != '\0') {
        (void)printf("%-10s ", name);
        cli_put_cut(stdout, value, FIELD_COLUMNS);
        (void)putchar('\n');
    }
}

static int show_attempts(struct cli_session *session, const char *id, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT *, round(cpu_seconds::numeric, 1) AS cpu,"
                           " peak_memory_bytes >> 20 AS memory, round(extract(epoch FROM"
                           " coalesce(finished_at, clock_timestamp()) - started_at) * 1000)::bigint"
                           " AS running_ms FROM job_attempts WHERE job_id = $1::uuid"
                           " ORDER BY attempt",
                           id);
    if (result || cv_db_rows(rows) == 0) {
        return result;
    }
    (void)printf("\n%-4s %-10s %-10s %-5s %-8s %-8s %s\n", "TRY", "STATUS", "TIME", "EXIT", "CPU s",
                 "MiB", "ERROR");
    for (int i = 0; i < cv_db_rows(rows); i++) {
        char duration[CLI_TIME_SIZE];
        char failure[512];
        (void)snprintf(failure, sizeof(failure), "%s%s%s", text_or(rows, i, "error_type", ""),
                       cv_db_text(rows, i, "error_message") ? ": " : "",
                       text_or(rows, i, "error_message", ""));
        cli_put_column(stdout, cv_db_text(rows, i, "attempt"), 5);
        cli_put_column(stdout, cv_db_text(rows, i, "status"), 11);
        cli_put_column(stdout, running_time(rows, i, duration), 11);
        cli_put_column(stdout, text_or(rows, i, "exit_code", ""), 6);
        cli_put_column(stdout, text_or(rows, i, "cpu", ""), 9);
        cli_put_column(stdout, text_or(rows, i, "memory", ""), 9);
        cli_put_cut(stdout, failure, 48);
        (void)putchar('\n');
    }
    return 0;
}

static int show_events(struct cli_session *session, const char *id, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(session->db, &rows, error,
                  "SELECT to_char(ts AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS') AS at,"
                  " source, level, message FROM task_events WHERE job_id = $1::uuid"
                  " ORDER BY ts, id",
                  id);
    if (result || cv_db_rows(rows) == 0) {
        return result;
    }
    (void)printf("\n%-24s %-5s %-21s %s\n", "EVENT (UTC)", "LEVEL", "SOURCE", "MESSAGE");
    for (int i = 0; i < cv_db_rows(rows); i++) {
        cli_put_column(stdout, cv_db_text(rows, i, "at"), 25);
        cli_put_column(stdout, cv_db_text(rows, i, "level"), 6);
        cli_put_column(stdout, cv_db_text(rows, i, "source"), 22);
        cli_put_cut(stdout, cv_db_text(rows, i, "message"), 46);
        (void)putchar('\n');
    }
    return 0;
}

static int show(struct cli_session *session, const char *name, struct cv_error *error)
{
    char id[CV_UUID_SIZE];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = find_job(session, name, id, error);
    result = result ? result
                    : cv_db_run(session->db, &rows, error,
                                "SELECT o.*, j.payload, j.result, o.created_at::text AS created"
                                " FROM job_overview o JOIN jobs j USING (id)"
                                " WHERE id = $1::uuid",
                                id);
    if (result || cv_db_rows(rows) == 0) {
        return result;
    }
    static const char *const fields[] = {
        "id",      "job_type",      "state",     "video",      "priority",      "attempt",
        "created", "scheduled_for", "locked_by", "error_type", "error_message", "payload",
        "result"};
    for (size_t i = 0; i < CV_COUNT(fields); i++) {
        print_field(fields[i], cv_db_text(rows, 0, fields[i]));
    }
    result = show_attempts(session, id, error);
    return result ? result : show_events(session, id, error);
}

static int retry_failed(struct cli_session *session, const char *job_type, struct cv_error *error)
{
    int64_t count = 0;
    int result = cv_queue_retry_failed(session->db, job_type, &count, error);
    if (result == 0) {
        (void)printf("%lld jobs are queued again\n", (long long)count);
    }
    return result;
}

/* Cancel or retry of one job; their outcomes become sentences. */
static int change(struct cli_session *session, const char *name, bool is_cancel,
                  struct cv_error *error)
{
    char id[CV_UUID_SIZE];
    int result = find_job(session, name, id, error);
    if (result) {
        return result;
    }
    result = is_cancel ? cv_queue_cancel(session->db, id, error)
                       : cv_queue_retry(session->db, id, error);
    switch (result) {
    case CV_QUEUE_OK:
        (void)printf("job %s is %s\n", id, is_cancel ? "canceled, or stops soon" : "queued again");
        return 0;
    case CV_QUEUE_WRONG_STATE:
        return cv_fail(error, CV_ERROR_CONFLICT, "the state of job %s forbids this", id);
    case CV_QUEUE_DUPLICATE:
        return cv_fail(error, CV_ERROR_CONFLICT, "the work of job %s is under way already", id);
    case CV_QUEUE_NO_SUCH_JOB:
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "job %s is gone", id);
    default:
        return result;
    }
}

static int act(struct cli_session *session, const char *action, const char *argument,
               const char *failed_type, struct cv_error *error)
{
    if (strcmp(action, "list") == 0) {
        return list(session, error);
    }
    if (strcmp(action, "show") == 0) {
        return show(session, argument, error);
    }
    if (failed_type) {
        return retry_failed(session, failed_type, error);
    }
    return change(session, argument, strcmp(action, "cancel") == 0, error);
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {{"data", required_argument, NULL, 'd'},
                                            {"failed", required_argument, NULL, 'f'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    const char *failed_type = NULL;
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option == 'd') {
            params.data = optarg;
        } else if (option == 'f') {
            failed_type = optarg;
        } else {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
    }
    const char *action = optind < argc ? argv[optind] : "list";
    bool is_retry = strcmp(action, "retry") == 0;
    bool is_list = strcmp(action, "list") == 0;
    if (!is_retry && !is_list && strcmp(action, "show") != 0 && strcmp(action, "cancel") != 0) {
        return cli_usage(command, "jobs cannot '%s'", action);
    }
    if (failed_type && !is_retry) {
        return cli_usage(command, "--failed goes with retry");
    }
    int wanted = is_list || failed_type ? 0 : 1;
    int given = optind < argc ? argc - optind - 1 : 0;
    if (given != wanted || (wanted == 1 && strlen(argv[optind + 1]) < 4)) {
        return cli_usage(command,
                         wanted ? "%s needs the id of one job, 4 letters of it or more"
                                : "%s takes no more arguments",
                         action);
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    return result ? result
                  : act(&session, action, wanted ? argv[optind + 1] : NULL, failed_type, error);
}

const struct cli_command cli_command_jobs = {
    .name = "jobs",
    .summary = "list, show, retry and cancel jobs",
    .help = "usage: cortana jobs [list | show ID | retry ID | retry --failed TYPE | cancel ID]\n\n"
            "  list                 unfinished jobs first, then the newest (50)\n"
            "  show ID              one job with its attempts and events\n"
            "  retry ID             a failed or canceled job once more, with fresh retries\n"
            "  retry --failed TYPE  every failed job of a type\n"
            "  cancel ID            a waiting job at once; a running one is stopped\n"
            "  --data DIR           the installation in DIR, even if DATABASE_URL is set\n\n"
            "ID may be the first letters of an id.\n",
    .run = run,
};
