#include "cli/command.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"

#include <getopt.h>
#include <jansson.h>
#include <poll.h>
#include <string.h>

CV_DEFINE_CLEANUP(json_t *, json_decref)

enum { WAIT_POLL_MS = 200 };

static int list(struct cli_session *session, struct cv_error *error)
{
    static const struct cli_column columns[] = {{"key", "COMMAND", 20},
                                                {"for_whom", "FOR", 12},
                                                {"time_limit", "LIMIT", 9},
                                                {"description", "WHAT IT DOES", 0}};
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT *, CASE WHEN NOT is_enabled THEN 'nobody' WHEN is_public THEN"
                           " 'applications' ELSE 'operators' END AS for_whom"
                           " FROM job_definitions ORDER BY key");
    if (result == 0) {
        cli_print_table(rows, columns, CV_COUNT(columns));
    }
    return result;
}

static int show(struct cli_session *session, const char *key, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT jsonb_pretty(to_jsonb(d) - 'created_at' - 'updated_at') AS text"
                           " FROM job_definitions d WHERE key = $1",
                           key);
    if (result == 0 && cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "there is no command '%s'", key);
    }
    if (result == 0) {
        (void)puts(cv_db_text(rows, 0, "text"));
    }
    return result;
}

/* An object as `show` prints it; members that are left out keep their value, or the default. */
static int define(struct cli_session *session, const char *path, struct cv_error *error)
{
    json_error_t problem;
    bool is_input = strcmp(path, "-") == 0;
    cv_auto(json_decref) json_t *given =
        is_input ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &problem)
                 : json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (!json_is_object(given)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s: %s", path,
                       given ? "no JSON object" : problem.text);
    }
    cv_auto_free char *text = json_dumps(given, JSON_COMPACT);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        text ? cv_db_run(session->db, &rows, error, "SELECT define_command($1::jsonb) AS key", text)
             : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %s", path);
    if (result == 0) {
        (void)printf("%s is defined\n", cv_db_text(rows, 0, "key"));
    }
    return result;
}

static int enable(struct cli_session *session, const char *key, bool is_enabled,
                  struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "UPDATE job_definitions SET is_enabled = $2::boolean WHERE key = $1"
                           " RETURNING key",
                           key, is_enabled ? "true" : "false");
    if (result == 0 && cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "there is no command '%s'", key);
    }
    return result;
}

/* Until the job has ended for good; its result on standard output. */
static int wait_for(struct cli_session *session, const char *job_id, struct cv_cancel *cancel,
                    struct cv_error *error)
{
    for (;;) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        int result = cv_db_run(session->db, &rows, error,
                               "SELECT status, result, status IN ('done', 'canceled')"
                               " OR (status = 'failed' AND scheduled_for IS NULL) AS is_over,"
                               " payload #>> '{error,message}' AS message"
                               " FROM jobs WHERE id = $1::uuid",
                               job_id);
        if (result) {
            return result;
        }
        if (cv_db_rows(rows) == 0) {
            return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "job %s is gone", job_id);
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
        struct pollfd stop = {.fd = cv_cancel_fd(cancel), .events = POLLIN};
        if (poll(&stop, 1, WAIT_POLL_MS) > 0) {
            return CLI_EXIT_INTERRUPTED;
        }
    }
}

static int start(struct cli_session *session, const char *key, const char *args, bool wait,
                 struct cv_cancel *cancel, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT job_id FROM run_command($1, $2::jsonb)", key, args);
    if (result) {
        return result;
    }
    const char *job_id = cv_db_text(rows, 0, "job_id");
    if (!wait) {
        (void)puts(job_id);
        return 0;
    }
    return wait_for(session, job_id, cancel, error);
}

static int act(struct cli_session *session, char **words, const char *args, bool wait,
               struct cv_cancel *cancel, struct cv_error *error)
{
    const char *action = words[0];
    if (strcmp(action, "show") == 0) {
        return show(session, words[1], error);
    }
    if (strcmp(action, "define") == 0) {
        return define(session, words[1], error);
    }
    if (strcmp(action, "run") == 0) {
        return start(session, words[1], args, wait, cancel, error);
    }
    return enable(session, words[1], strcmp(action, "enable") == 0, error);
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const char *const actions[] = {"show", "define", "run", "enable", "disable"};
    static const struct option options[] = {{"data", required_argument, NULL, 'd'},
                                            {"args", required_argument, NULL, 'a'},
                                            {"wait", no_argument, NULL, 'w'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    const char *args = "{}";
    bool wait = false;
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option == 'd') {
            params.data = optarg;
        } else if (option == 'a') {
            args = optarg;
        } else if (option == 'w') {
            wait = true;
        } else {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
    }
    bool is_list = optind == argc || (strcmp(argv[optind], "list") == 0 && optind + 1 == argc);
    bool is_known = is_list;
    for (size_t i = 0; !is_known && i < CV_COUNT(actions); i++) {
        is_known = strcmp(argv[optind], actions[i]) == 0;
    }
    if (!is_known) {
        return cli_usage(command, "commands cannot '%s'", argv[optind]);
    }
    if (!is_list && argc - optind != 2) {
        return cli_usage(command, "%s needs one %s", argv[optind],
                         strcmp(argv[optind], "define") == 0 ? "file, or -" : "command");
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    if (result) {
        return result;
    }
    return is_list ? list(&session, error)
                   : act(&session, argv + optind, args, wait, cancel, error);
}

const struct cli_command cli_command_commands = {
    .name = "commands",
    .summary = "the programs that may be run as jobs",
    .help = "usage: cortana commands [list | show KEY | run KEY | define FILE | enable KEY |\n"
            "                         disable KEY] [--data DIR]\n\n"
            "  run KEY          enqueues it for a command-worker; prints the job's id\n"
            "    --args JSON    its values, checked by the definition's JSON Schema ({})\n"
            "    --wait         waits, and prints the result\n"
            "  define FILE      a JSON object with key, description, argv, payload_schema,\n"
            "                   environment, time_limit, is_public; - is standard input\n"
            "  --data DIR       the installation in DIR, even if DATABASE_URL is set\n\n"
            "Nothing runs that is not defined here, and no shell is involved.\n",
    .run = run,
};
