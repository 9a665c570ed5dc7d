#include "cli/command.h"
#include "cli/session.h"
#include "cli/table.h"

#include <getopt.h>
#include <string.h>

enum { SETTINGS_MAX = 16 };

/* What may be set, the column it stands in, and its type. */
static const struct {
    const char *name;
    const char *column;
    const char *type;
} settings[] = {
    {"priority", "base_priority", "int"},
    {"interactive", "interactive_adjustment", "int"},
    {"put-off", "put_off_while_interactive", "boolean"},
    {"events", "status_events", "boolean"},
    {"weight", "cpu_weight", "int"},
    {"max", "max_running", "int"},
    {"max-per-tenant", "max_running_per_tenant", "int"},
    {"time-limit", "time_limit", "interval"},
    {"retries", "retry_delays", "interval[]"},
    {"public", "is_public", "boolean"},
};

static int list(struct cli_session *session, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "TYPE", 16},       {"base_priority", "PRIORITY", 8},
        {"interactive", "BUSY", 7}, {"cpu_weight", "WEIGHT", 6},
        {"most", "MAX", 4},         {"most_per_tenant", "TENANT", 6},
        {"time_limit", "LIMIT", 9}, {"note", "NOTE", 0},
    };
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT *, CASE WHEN put_off_while_interactive THEN 'put off'"
                           " WHEN interactive_adjustment <> 0 THEN interactive_adjustment::text"
                           " END AS interactive, coalesce(max_running::text, '-') AS most,"
                           " coalesce(max_running_per_tenant::text, '-') AS most_per_tenant,"
                           " CASE WHEN paused_at IS NOT NULL"
                           " THEN concat_ws(': ', 'paused', pause_reason) END AS note"
                           " FROM job_types ORDER BY name");
    if (result == 0) {
        cli_print_table(rows, columns, CV_COUNT(columns));
    }
    return result;
}

/* Adds "column = $n::type" for one "name=value"; false: there is no such setting. */
static bool add_setting(struct cv_buffer *sql, const char *text, size_t number,
                        const char **ret_value)
{
    size_t length = strcspn(text, "=");
    for (size_t i = 0; i < CV_COUNT(settings); i++) {
        if (strlen(settings[i].name) == length && strncmp(settings[i].name, text, length) == 0 &&
            text[length] == '=') {
            cv_buffer_printf(sql, "%s%s = $%zu::%s", number > 2 ? ", " : "", settings[i].column,
                             number, settings[i].type);
            const char *value = text + length + 1;
            *ret_value = strcmp(value, "none") == 0 ? NULL : value;
            return true;
        }
    }
    return false;
}

static int set(struct cli_session *session, const char *job_type, char **texts, size_t count,
               struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer sql = CV_BUFFER_INIT;
    const char *parameters[1 + SETTINGS_MAX] = {job_type};
    cv_buffer_text(&sql, "UPDATE job_types SET ");
    for (size_t i = 0; i < count; i++) {
        if (!add_setting(&sql, texts[i], i + 2, &parameters[i + 1])) {
            return cv_fail(error, CV_ERROR_CONFIGURATION,
                           "'%s' is no setting; see cortana rules --help", texts[i]);
        }
    }
    cv_buffer_text(&sql, ", updated_at = now() WHERE name = $1 RETURNING name");
    if (sql.failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a statement");
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_query(session->db, sql.data, count + 1, parameters, &rows, error);
    if (result == 0 && cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "no job type is '%s'", job_type);
    }
    if (result == 0) {
        (void)printf("the rules of %s hold from the next claim on\n", job_type);
    }
    return result;
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {
        {"data", required_argument, NULL, 'd'}, {"help", no_argument, NULL, 'h'}, {0}};
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option != 'd') {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
        params.data = optarg;
    }
    const char *action = optind < argc ? argv[optind] : "list";
    int given = optind < argc ? argc - optind - 1 : 0;
    bool is_set = strcmp(action, "set") == 0;
    if (!is_set && (strcmp(action, "list") != 0 || given != 0)) {
        return cli_usage(command, "rules cannot '%s'", action);
    }
    if (is_set && (given < 2 || given > SETTINGS_MAX)) {
        return cli_usage(command, "set needs a job type and settings");
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    if (result) {
        return result;
    }
    return is_set ? set(&session, argv[optind + 1], argv + optind + 2, (size_t)given - 1, error)
                  : list(&session, error);
}

const struct cli_command cli_command_rules = {
    .name = "rules",
    .summary = "show and change by which rules jobs are claimed",
    .help = "usage: cortana rules [list | set TYPE NAME=VALUE…]\n\n"
            "  priority=0..10       of jobs that are enqueued without one\n"
            "  weight=1..5          of a host's CPU budget that a running job takes\n"
            "  max=N, max-per-tenant=N   running at once over the whole fleet; none: no limit\n"
            "  interactive=-10..0   added to the priority while somebody searches or plays\n"
            "  put-off=yes|no       claim nothing for 30 s at a time meanwhile\n"
            "  events=yes|no        an event for every change of status, or for failures alone\n"
            "  time-limit='1 hour'  past which an attempt is killed\n"
            "  retries='{1 minute,5 minutes}'   one entry a retry\n"
            "  public=yes|no        applications may enqueue it\n"
            "  --data DIR           the installation in DIR, even if DATABASE_URL is set\n\n"
            "They hold from the next claim on, whatever is running.\n",
    .run = run,
};
