#include "cli/command.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"

#include <getopt.h>
#include <string.h>

enum { EVENTS_MAX = 16 };

struct request {
    const char *arguments[2]; /* behind the action; NULL: not given */
    const char *events[EVENTS_MAX];
    size_t event_count;
    const char *tenant, *description, *secret, *keep, *reason;
};

CV_DEFINE_CLEANUP(struct cv_db *, cv_db_rollback)

static int list(struct cli_session *session, const struct request *request, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "WEBHOOK", 16},
        {"url", "URL", 32},
        {"events", "EVENTS", 24},
        {"state", "LAST", 0},
    };
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    (void)request;
    int result = cv_db_run(
        session->db, &rows, error,
        "SELECT *, CASE WHEN disabled_at IS NOT NULL THEN concat_ws(': ', 'off', disabled_reason)"
        " ELSE concat_ws(': ', last_status, last_error) END AS state"
        " FROM webhook_overview ORDER BY name");
    if (result == 0) {
        cli_print_table(rows, columns, CV_COUNT(columns));
    }
    return result;
}

/* The webhook and a trigger for each event, or nothing of it. */
static int add(struct cli_session *session, const struct request *request, struct cv_error *error)
{
    const char *name = request->arguments[0];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto(cv_db_rollback) struct cv_db *db = session->db; /* harmless after a commit */
    int result = cv_db_begin(db, error);
    result = result ? result
                    : cv_db_run(db, &rows, error,
                                "SELECT add_webhook($1, $2, $3::uuid, $4, $5) AS secret", name,
                                request->arguments[1], request->tenant, request->description,
                                request->secret);
    for (size_t i = 0; result == 0 && i < request->event_count; i++) {
        result = cv_db_run(db, NULL, error,
                           "INSERT INTO job_triggers (name, event, action, target, tenant_id)"
                           " VALUES (concat('webhook:', $1::text, ':', $2::text), $2, 'webhook',"
                           " $1, $3::uuid)",
                           name, request->events[i], request->tenant);
    }
    result = result ? result : cv_db_commit(db, error);
    if (result == 0) {
        (void)printf("%s\n", cv_db_text(rows, 0, "secret"));
        (void)fprintf(stderr, "%s is called for %zu events; the secret above is for its receiver\n",
                      name, request->event_count);
    }
    return result;
}

static int rotate(struct cli_session *session, const struct request *request,
                  struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    const char *keep = request->keep ? request->keep : "24 hours";
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT rotate_webhook($1, $2::interval, $3) AS secret",
                           request->arguments[0], keep, request->secret);
    if (result == 0) {
        (void)printf("%s\n", cv_db_text(rows, 0, "secret"));
        (void)fprintf(stderr, "messages are signed with the old secrets, too, for %s\n", keep);
    }
    return result;
}

static int test(struct cli_session *session, const struct request *request, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT job_id FROM send_webhook($1, 'webhook.test',"
                           " '{\"message\": \"a test\"}', p_priority => 10)",
                           request->arguments[0]);
    if (result == 0) {
        const char *id = cv_db_text(rows, 0, "job_id");
        (void)printf("job %s\n", id);
        (void)fprintf(stderr, "cortana jobs show %.8s says what became of it\n", id);
    }
    return result;
}

/* Runs a statement that returns a row if there was such a webhook. */
static int change(struct cli_session *session, const struct request *request, const char *sql,
                  const char *done, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error, sql, request->arguments[0], request->reason);
    if (result == 0 && cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "no webhook is called '%s'",
                       request->arguments[0]);
    }
    if (result == 0) {
        (void)printf("%s %s\n", request->arguments[0], done);
    }
    return result;
}

static int disable(struct cli_session *session, const struct request *request,
                   struct cv_error *error)
{
    return change(session, request,
                  "SELECT disable_webhook(name, $2) FROM webhooks WHERE name = $1", "is off",
                  error);
}

static int enable(struct cli_session *session, const struct request *request,
                  struct cv_error *error)
{
    return change(session, request,
                  "SELECT enable_webhook(name), $2::text FROM webhooks WHERE name = $1", "is on",
                  error);
}

static int remove_one(struct cli_session *session, const struct request *request,
                      struct cv_error *error)
{
    return change(session, request,
                  "WITH triggers AS (DELETE FROM job_triggers WHERE action = 'webhook'"
                  " AND target = $1) DELETE FROM webhooks WHERE name = $1"
                  " RETURNING name, $2::text",
                  "is removed, with its triggers", error);
}

static const struct {
    const char *name;
    int arguments;
    int (*run)(struct cli_session *session, const struct request *request, struct cv_error *error);
} verbs[] = {
    {"list", 0, list},         {"add", 2, add},         {"test", 1, test},
    {"rotate", 1, rotate},     {"disable", 1, disable}, {"enable", 1, enable},
    {"remove", 1, remove_one},
};

static bool take_option(int option, struct request *request, struct cli_session_params *params)
{
    switch (option) {
    case 'd':
        params->data = optarg;
        return true;
    case 'e':
        if (request->event_count == EVENTS_MAX) {
            return false;
        }
        request->events[request->event_count++] = optarg;
        return true;
    case 't':
        request->tenant = optarg;
        return true;
    case 'D':
        request->description = optarg;
        return true;
    case 's':
        request->secret = optarg;
        return true;
    case 'k':
        request->keep = optarg;
        return true;
    default:
        request->reason = optarg;
        return true;
    }
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {{"data", required_argument, NULL, 'd'},
                                            {"event", required_argument, NULL, 'e'},
                                            {"tenant", required_argument, NULL, 't'},
                                            {"description", required_argument, NULL, 'D'},
                                            {"secret", required_argument, NULL, 's'},
                                            {"keep", required_argument, NULL, 'k'},
                                            {"reason", required_argument, NULL, 'r'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    struct request request = {.event_count = 0};
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option == 'h' || option == '?') {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        } else if (!take_option(option, &request, &params)) {
            return cli_usage(command, "more than %d events", EVENTS_MAX);
        }
    }
    size_t verb = 0;
    while (optind < argc && verb < CV_COUNT(verbs) && strcmp(argv[optind], verbs[verb].name) != 0) {
        verb++;
    }
    if (verb == CV_COUNT(verbs)) {
        return cli_usage(command, "webhooks cannot '%s'", argv[optind]);
    }
    int given = optind < argc ? argc - optind - 1 : 0;
    if (given != verbs[verb].arguments) {
        return cli_usage(command, "%s takes %d arguments", verbs[verb].name, verbs[verb].arguments);
    }
    for (int i = 0; i < given; i++) {
        request.arguments[i] = argv[optind + 1 + i];
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    return result ? result : verbs[verb].run(&session, &request, error);
}

const struct cli_command cli_command_webhooks = {
    .name = "webhooks",
    .summary = "URLs that are told of events, signed",
    .help =
        "usage: cortana webhooks [list | add NAME URL | test NAME | rotate NAME | disable NAME |\n"
        "       enable NAME | remove NAME]\n\n"
        "  list          all of them, their events, and what became of the last message\n"
        "  add NAME URL  prints the secret that its receiver checks signatures with\n"
        "    --event EVENT       is told of this; may be given several times (see cortana "
        "triggers\n"
        "                        for more: templates, filters, schedules)\n"
        "    --tenant ID         of this tenant's events alone\n"
        "    --secret whsec_…    this secret rather than a new one\n"
        "    --description TEXT\n"
        "  test NAME     sends it a message of type webhook.test\n"
        "  rotate NAME   prints a new secret; the old ones sign, too, for a while (--keep '24 "
        "hours')\n"
        "  disable NAME  no more messages (--reason TEXT); a receiver does this by answering 410\n"
        "  enable NAME, remove NAME\n"
        "  --data DIR    the installation in DIR, even if DATABASE_URL is set\n\n"
        "The program `webhook-worker` delivers. Addresses that are not public are refused but for\n"
        "networks in its CORTANA_WEBHOOK_ALLOW.\n",
    .run = run,
};
