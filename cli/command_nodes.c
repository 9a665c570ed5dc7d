#include "common/queue/queue.h"

#include "cli/command.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"

#include <getopt.h>
#include <poll.h>
#include <string.h>

enum { EVERY_MS = 30 * 1000 };

static int list(struct cli_session *session, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "NODE", 16},  {"state", "STATE", 8},  {"wake_method", "WAKE", 6},
        {"types", "JOBS", 24}, {"ago_ms", "WOKEN", 8}, {"call", "BY", 0},
    };
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(session->db, &rows, error,
                  "SELECT n.*, array_to_string(n.job_types, ',') AS types,"
                  " (extract(epoch FROM clock_timestamp() - woken_at) * 1000)::bigint AS ago_ms,"
                  " coalesce(n.mac, array_to_string(n.script, ' ')) AS call,"
                  " CASE WHEN NOT n.is_enabled THEN 'off' WHEN EXISTS (SELECT FROM workers w"
                  " WHERE w.host = n.host AND w.state = 'running'"
                  " AND w.last_seen > clock_timestamp() - interval '5 minutes')"
                  " THEN 'awake' ELSE 'asleep' END AS state FROM nodes n ORDER BY name");
    if (result == 0) {
        cli_print_table(rows, columns, CV_COUNT(columns));
    }
    return result;
}

static int wake_one(struct cli_session *session, const char *name, struct cv_error *error)
{
    int result = cv_queue_wake_node(session->db, name, error);
    if (result == CV_QUEUE_NO_SUCH_JOB) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "no node is '%s'", name);
    }
    if (result == 0) {
        (void)printf("node %s is called\n", name);
    }
    return result;
}

static void tell(void *opaque, const char *node, const struct cv_error *failure)
{
    (void)opaque;
    if (failure) {
        (void)fprintf(stderr, "node %s: %s\n", node, failure->message);
    } else {
        (void)printf("node %s is called\n", node);
        (void)fflush(stdout);
    }
}

/* Until it is interrupted; a database that is away for a while is waited for. */
static int watch(struct cli_session *session, int64_t every_ms, struct cv_cancel *cancel,
                 struct cv_error *error)
{
    while (true) {
        int result = cv_db_is_connected(session->db)
                         ? 0
                         : cv_db_reconnect(session->db, (int)every_ms, error);
        result = result ? result : cv_queue_wake_nodes(session->db, tell, NULL, error);
        struct pollfd wait = {.fd = cv_cancel_fd(cancel), .events = POLLIN};
        if (cv_cancel_level(cancel) != CV_CANCEL_NONE) {
            return 0;
        }
        if (result && error->verdict != CV_VERDICT_RETRY) {
            return result;
        }
        if (result) {
            (void)fprintf(stderr, "nodes: %s\n", error->message);
        }
        if (poll(&wait, 1, (int)every_ms) > 0) {
            return 0;
        }
    }
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {{"data", required_argument, NULL, 'd'},
                                            {"every", required_argument, NULL, 'e'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    double every = EVERY_MS / 1000.0;
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option == 'd') {
            params.data = optarg;
        } else if (option == 'h' || option == '?') {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        } else if (!cv_parse_double(optarg, 0.1, 3600, &every)) {
            return cli_usage(command, "--every takes seconds from 0.1 to 3600");
        }
    }
    const char *action = optind < argc ? argv[optind] : "list";
    bool is_wake = strcmp(action, "wake") == 0;
    if (!is_wake && strcmp(action, "list") != 0 && strcmp(action, "watch") != 0) {
        return cli_usage(command, "nodes cannot '%s'", action);
    }
    if ((optind < argc ? argc - optind - 1 : 0) != (is_wake ? 1 : 0)) {
        return cli_usage(command,
                         is_wake ? "wake needs the name of a node" : "%s takes no more arguments",
                         action);
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    if (result) {
        return result;
    }
    if (is_wake) {
        return wake_one(&session, argv[optind + 1], error);
    }
    return strcmp(action, "list") == 0 ? list(&session, error)
                                       : watch(&session, (int64_t)(every * 1000), cancel, error);
}

const struct cli_command cli_command_nodes = {
    .name = "nodes",
    .summary = "show and wake the machines that sleep",
    .help = "usage: cortana nodes [list | wake NAME | watch]\n\n"
            "  list         the rows of the table nodes, and which are awake\n"
            "  wake NAME    a magic packet, or the node's script, whether it is needed or not\n"
            "  watch        wake what jobs of the next 5 minutes need, until interrupted;\n"
            "               may run on several machines: each node is called once in 5 minutes\n"
            "    --every S    look this often (30)\n"
            "  --data DIR   the installation in DIR, even if DATABASE_URL is set\n",
    .run = run,
};
