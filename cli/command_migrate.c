#include "common/queue/queue.h"

#include "cli/command.h"
#include "cli/session.h"

#include <getopt.h>

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {{"data", required_argument, NULL, 'd'},
                                            {"check", no_argument, NULL, 'c'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct cli_session_params params = {
        .without_store = true, .unmigrated = true, .cancel = cancel};
    bool check = false;
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option == 'd') {
            params.data = optarg;
        } else if (option == 'c') {
            check = true;
        } else {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
    }
    if (optind < argc) {
        return cli_usage(command, "unexpected argument %s", argv[optind]);
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    struct cv_migration_status before;
    struct cv_migration_status after;
    result = result ? result : cv_migrate_status(session.db, &before, error);
    if (result == 0 && check) {
        (void)printf("%d applied, %d pending\n", before.applied, before.pending);
        return before.pending > 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
    }
    result = result ? result : cv_migrate(session.db, &after, error);
    if (result) {
        return result;
    }
    (void)printf("%d applied now, %d in all\n", after.applied - before.applied, after.applied);
    return CLI_EXIT_OK;
}

const struct cli_command cli_command_migrate = {
    .name = "migrate",
    .summary = "bring the database's schema up to date",
    .help = "usage: cortana migrate [--check] [--data DIR]\n\n"
            "Applies every pending migration, each once, under a lock: safe to run from several\n"
            "places at once.\n\n"
            "  --check     only say what is pending; exit 1 if anything is\n"
            "  --data DIR  the installation in DIR, even if DATABASE_URL is set\n",
    .run = run,
};
