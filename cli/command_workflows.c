#include "cli/command.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"

#include <getopt.h>
#include <jansson.h>
#include <string.h>

CV_DEFINE_CLEANUP(json_t *, json_decref)
CV_DEFINE_CLEANUP(char *, free)

static int list(struct cli_session *session, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "WORKFLOW", 24},  {"version", "VERSION", 8},         {"steps", "STEPS", 6},
        {"running", "RUNNING", 8}, {"description", "DESCRIPTION", 0},
    };
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT name, version, jsonb_array_length(steps) AS steps, description,"
                           " (SELECT count(*) FROM runs r WHERE r.workflow = name"
                           " AND r.status = 'running') AS running"
                           " FROM workflows WHERE is_active ORDER BY name");
    if (result == 0) {
        cli_print_table(rows, columns, CV_COUNT(columns));
    }
    return result;
}

static int show(struct cli_session *session, const char *name, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT jsonb_pretty(steps) AS steps FROM workflows"
                           " WHERE name = $1 AND is_active",
                           name);
    if (result == 0 && cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "no workflow is '%s'", name);
    }
    if (result == 0) {
        (void)puts(cv_db_text(rows, 0, "steps"));
    }
    return result;
}

/* The database checks the steps; this only sees that there are some. */
static int add(struct cli_session *session, const char *name, const char *path,
               struct cv_error *error)
{
    json_error_t reason;
    cv_auto(json_decref) json_t *steps = json_load_file(path, 0, &reason);
    if (!steps) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s:%d: %s", path, reason.line,
                       reason.text);
    }
    cv_auto(free) char *text = json_dumps(steps, JSON_COMPACT);
    if (!text) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the steps");
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "INSERT INTO workflows (name, steps) VALUES ($1, $2::jsonb)"
                           " RETURNING version",
                           name, text);
    if (result == 0) {
        (void)printf("%s version %s is active\n", name, cv_db_text(rows, 0, "version"));
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
    int wanted = strcmp(action, "list") == 0   ? 0
                 : strcmp(action, "show") == 0 ? 1
                 : strcmp(action, "add") == 0  ? 2
                                               : -1;
    if (wanted < 0) {
        return cli_usage(command, "workflows cannot '%s'", action);
    }
    if (given != wanted) {
        return cli_usage(command, "%s takes %d arguments", action, wanted);
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    if (result) {
        return result;
    }
    char **arguments = argv + optind + 1;
    return wanted == 0   ? list(&session, error)
           : wanted == 1 ? show(&session, arguments[0], error)
                         : add(&session, arguments[0], arguments[1], error);
}

const struct cli_command cli_command_workflows = {
    .name = "workflows",
    .summary = "list, show and add workflows",
    .help = "usage: cortana workflows [list | show NAME | add NAME STEPS.json]\n\n"
            "  list                 the active version of each\n"
            "  show NAME            its steps, as JSON\n"
            "  add NAME STEPS.json  a new version, active from now on; runs under way keep theirs\n"
            "  --data DIR           the installation in DIR, even if DATABASE_URL is set\n",
    .run = run,
};
