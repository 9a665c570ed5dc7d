#include "cli/jobs.h"
#include "cli/text.h"

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

int cli_jobs_list(struct cli_session *session, const struct cli_jobs_request *request,
                  struct cv_error *error)
{
    (void)request;
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

int cli_find_job(struct cli_session *session, const char *name, char id[CV_UUID_SIZE],
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

int cli_jobs_show(struct cli_session *session, const struct cli_jobs_request *request,
                  struct cv_error *error)
{
    char id[CV_UUID_SIZE];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cli_find_job(session, request->arguments[0], id, error);
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

int cli_jobs_why(struct cli_session *session, const struct cli_jobs_request *request,
                 struct cv_error *error)
{
    char id[CV_UUID_SIZE];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cli_find_job(session, request->arguments[0], id, error);
    result = result ? result
                    : cv_db_run(session->db, &rows, error, "SELECT * FROM why_job($1::uuid)", id);
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        cli_put_column(stdout, cv_db_text(rows, i, "reason"), 18);
        cli_put_cut(stdout, text_or(rows, i, "detail", ""), FIELD_COLUMNS);
        (void)putchar('\n');
    }
    return result;
}
