#include "cli/command.h"
#include "cli/session.h"
#include "cli/worker_processes.h"

#include <getopt.h>
#include <poll.h>

enum {
    POLL_MS = 100,
    PATIENCE_MS = 30 * 1000, /* what takes longer is left to the workers of the next run */
};

/* A local installation has no worker while nobody runs it: the objects go before we do. */
static int wait_for_removal(struct cli_session *session, const char *video_id,
                            struct cv_cancel *cancel, struct cv_error *error)
{
    cv_auto(cli_workers_stop) struct cli_workers workers;
    cli_workers_init(&workers, session);
    int result = cli_workers_start(&workers, "object_remove", error);
    int64_t end = cv_monotonic_ms() + PATIENCE_MS;
    while (result == 0 && cv_monotonic_ms() < end) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        result = cv_db_run(session->db, &rows, error,
                           "SELECT objects FROM object_removals WHERE video_id = $1::uuid"
                           " AND (finished_at IS NOT NULL OR final_after > clock_timestamp())",
                           video_id);
        if (result == 0 && cv_db_rows(rows) > 0) {
            (void)printf("%s objects are removed\n", cv_db_text(rows, 0, "objects"));
            return 0;
        }
        result = result ? result : cli_workers_check(&workers, error);
        struct pollfd wait = {.fd = cv_cancel_fd(cancel), .events = POLLIN};
        if (result == 0 && poll(&wait, 1, POLL_MS) > 0) {
            return cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
    return result;
}

static int delete_one(struct cli_session *session, const char *video, struct cv_cancel *cancel,
                      struct cv_error *error)
{
    char id[CLI_UUID_SIZE];
    int result = cli_find_video(session->db, video, id, error);
    result =
        result ? result : cv_db_run(session->db, NULL, error, "SELECT delete_video($1::uuid)", id);
    if (result) {
        return result;
    }
    (void)printf("video %s is deleted\n", id);
    (void)fflush(stdout);
    return session->is_local ? wait_for_removal(session, id, cancel, error) : 0;
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {
        {"data", required_argument, NULL, 'd'}, {"help", no_argument, NULL, 'h'}, {0}};
    struct cli_session_params params = {.cancel = cancel};
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option != 'd') {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
        params.data = optarg;
    }
    if (optind == argc) {
        return cli_usage(command, "which video?");
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    for (int i = optind; result == 0 && i < argc; i++) {
        result = delete_one(&session, argv[i], cancel, error);
    }
    return result;
}

const struct cli_command cli_command_delete = {
    .name = "delete",
    .summary = "delete videos with all that was made of them",
    .help = "usage: cortana delete VIDEO… [--data DIR]\n\n"
            "Deletes the rows at once; a job removes the objects, the original, too.\n"
            "A video is named by its id or the beginning of it, its file's name, or last.\n",
    .run = run,
};
