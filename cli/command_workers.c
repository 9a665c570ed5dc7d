#include "cli/command.h"
#include "cli/session.h"
#include "cli/text.h"

#include <getopt.h>
#include <string.h>

/* A worker by its id or the beginning of one. */
static int drain(struct cli_session *session, const char *name, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT id, drain_worker(id) AS told FROM workers"
                           " WHERE state <> 'stopped' AND starts_with(id, $1)",
                           name);
    if (result == 0 && cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "no worker is '%s'", name);
    }
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        (void)fputs("worker ", stdout);
        cli_put(stdout, cv_db_text(rows, i, "id"));
        (void)puts(" claims nothing more, and goes when what it runs has ended");
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
    bool is_drain = optind < argc && strcmp(argv[optind], "drain") == 0;
    if (optind < argc && !is_drain && strcmp(argv[optind], "list") != 0) {
        return cli_usage(command, "workers cannot '%s'", argv[optind]);
    }
    if (argc - optind > (is_drain ? 2 : 1) || (is_drain && argc - optind != 2)) {
        return cli_usage(command, is_drain ? "drain needs the id of a worker"
                                           : "list takes no more arguments");
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cli_session_open(&session, &params, error);
    if (result == 0 && is_drain) {
        return drain(&session, argv[optind + 1], error);
    }
    result = result ? result
                    : cv_db_run(session.db, &rows, error,
                                "SELECT *, running || '/' || slots AS load FROM worker_overview"
                                " WHERE state <> 'stopped' OR last_seen > now() - interval '1 day'"
                                " ORDER BY state = 'stopped', job_types, id");
    if (result) {
        return result;
    }
    (void)printf("%-9s %-15s %-7s %-10s %-10s %s\n", "STATE", "JOBS", "RUNNING", "LAST SEEN",
                 "VERSION", "WORKER");
    for (int i = 0; i < cv_db_rows(rows); i++) {
        char ago[CLI_TIME_SIZE];
        cli_put_column(stdout, cv_db_text(rows, i, "state"), 10);
        cli_put_column(stdout, cv_db_text(rows, i, "job_types"), 16);
        cli_put_column(stdout, cv_db_text(rows, i, "load"), 8);
        cli_put_column(stdout, cli_duration(cv_db_int(rows, i, "silent_seconds", 0) * 1000, ago),
                       11);
        cli_put_column(stdout, cv_db_text(rows, i, "version") ? cv_db_text(rows, i, "version") : "",
                       11);
        cli_put_cut(stdout, cv_db_text(rows, i, "id"), 44);
        (void)putchar('\n');
    }
    return CLI_EXIT_OK;
}

const struct cli_command cli_command_workers = {
    .name = "workers",
    .summary = "show the workers, and which are stale; drain one",
    .help = "usage: cortana workers [list | drain ID] [--data DIR]\n\n"
            "  drain ID   it claims nothing more, and goes when what it runs has ended; the\n"
            "             beginning of an id means all that begin so: a host, say\n\n"
            "Shows every worker that runs or ran within a day. A stale one has said nothing for\n"
            "longer than a lease lasts; its jobs are claimed by others.\n",
    .run = run,
};
