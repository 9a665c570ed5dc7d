#include "common/queue/queue.h"

#include "cli/command.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"

#include <getopt.h>
#include <string.h>

CV_DEFINE_CLEANUP(json_t *, json_decref)

struct request {
    const char *action;
    const char *argument;
    const char *video;
    json_t *input;
};

static const struct cli_column run_columns[] = {
    {"id", "RUN", 8},          {"workflow", "WORKFLOW", 16}, {"status", "STATE", 8},
    {"steps", "JOBS", 9},      {"running_ms", "TIME", 8},    {"video", "VIDEO", 16},
    {"note", "AT, OR WHY", 0},
};

#define RUN_NOTE                                                            \
    " coalesce(failed_step || ': ' || error_type || ': ' || error_message," \
    " CASE WHEN status = 'running' THEN current_steps END) AS note,"        \
    " done || '/' || jobs AS steps"

static int list(struct cli_session *session, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT *," RUN_NOTE " FROM run_overview"
                           " ORDER BY status <> 'running', created_at DESC LIMIT 50");
    if (result == 0) {
        cli_print_table(rows, run_columns, CV_COUNT(run_columns));
    }
    return result;
}

/* A run by its id or the beginning of one. */
static int find_run(struct cli_session *session, const char *name, char id[CV_UUID_SIZE],
                    struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(session->db, &rows, error,
                  "SELECT id FROM runs WHERE starts_with(id::text, lower($1)) LIMIT 2", name);
    if (result) {
        return result;
    }
    if (cv_db_rows(rows) != 1) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND,
                       cv_db_rows(rows) == 0 ? "no run is '%s'"
                                             : "several runs begin with '%s': give more of the id",
                       name);
    }
    (void)snprintf(id, CV_UUID_SIZE, "%s", cv_db_text(rows, 0, "id"));
    return 0;
}

static int show(struct cli_session *session, const char *id, struct cv_error *error)
{
    static const struct cli_column job_columns[] = {
        {"id", "JOB", 8},          {"step", "STEP", 18},   {"part", "PART", 5},
        {"state", "STATE", 11},    {"percent", "DONE", 6}, {"attempt", "TRY", 4},
        {"running_ms", "TIME", 8}, {"note", "NOTE", 0},
    };
    cv_auto(cv_db_result_free) struct cv_db_result *run = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *jobs = NULL;
    int result = cv_db_run(session->db, &run, error,
                           "SELECT *," RUN_NOTE " FROM run_overview WHERE id = $1::uuid", id);
    result = result ? result
                    : cv_db_run(session->db, &jobs, error,
                                "SELECT o.*, j.step, j.part, round(o.progress * 100) || ' %'"
                                " AS percent, CASE WHEN o.error_type IS NULL"
                                " THEN o.progress_message ELSE o.error_type || ': '"
                                " || o.error_message END AS note"
                                " FROM job_overview o JOIN jobs j USING (id)"
                                " WHERE j.run_id = $1::uuid"
                                " ORDER BY j.started_at NULLS LAST, j.unmet_dependencies,"
                                " j.step, j.part LIMIT 500",
                                id);
    if (result) {
        return result;
    }
    cli_print_table(run, run_columns, CV_COUNT(run_columns));
    (void)putchar('\n');
    cli_print_table(jobs, job_columns, CV_COUNT(job_columns));
    return 0;
}

static int start(struct cli_session *session, const struct request *request, struct cv_error *error)
{
    char video[CLI_UUID_SIZE] = "";
    char id[CV_UUID_SIZE];
    int result = request->video ? cli_find_video(session->db, request->video, video, error) : 0;
    if (result) {
        return result;
    }
    const struct cv_run_params params = {
        .workflow = request->argument,
        .video_id = video[0] ? video : NULL,
        .input = request->input,
        .priority = -1,
    };
    result = cv_queue_start_run(session->db, &params, id, error);
    if (result >= 0) {
        (void)printf(result == CV_QUEUE_DUPLICATE ? "run %s is on its way already\n"
                                                  : "run %s has started\n",
                     id);
        result = 0;
    }
    return result;
}

static int restart(struct cli_session *session, const char *id, struct cv_error *error)
{
    int64_t count = 0;
    int result = cv_queue_restart_run(session->db, id, &count, error);
    if (result == CV_QUEUE_NO_SUCH_JOB) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "run %s is gone", id);
    }
    if (result == 0) {
        (void)printf("%lld jobs are queued again\n", (long long)count);
    }
    return result;
}

static int cancel_run(struct cli_session *session, const char *id, struct cv_error *error)
{
    int result = cv_queue_cancel_run(session->db, id, error);
    if (result == CV_QUEUE_WRONG_STATE) {
        return cv_fail(error, CV_ERROR_CONFLICT, "nothing of run %s is left to cancel", id);
    }
    if (result == 0) {
        (void)printf("run %s is canceled, or stops soon\n", id);
    }
    return result;
}

static int act(struct cli_session *session, const struct request *request, struct cv_error *error)
{
    if (strcmp(request->action, "list") == 0) {
        return list(session, error);
    }
    if (strcmp(request->action, "start") == 0) {
        return start(session, request, error);
    }
    char id[CV_UUID_SIZE];
    int result = find_run(session, request->argument, id, error);
    if (result) {
        return result;
    }
    if (strcmp(request->action, "show") == 0) {
        return show(session, id, error);
    }
    return strcmp(request->action, "restart") == 0 ? restart(session, id, error)
                                                   : cancel_run(session, id, error);
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {{"data", required_argument, NULL, 'd'},
                                            {"video", required_argument, NULL, 'v'},
                                            {"input", required_argument, NULL, 'i'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    static const char *const actions[] = {"list", "show", "start", "restart", "cancel"};
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    struct request request = {.action = "list"};
    cv_auto(json_decref) json_t *input = NULL;
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option == 'd') {
            params.data = optarg;
        } else if (option == 'v') {
            request.video = optarg;
        } else if (option == 'i') {
            json_error_t reason;
            json_decref(input);
            input = json_loads(optarg, 0, &reason);
            if (!json_is_object(input)) {
                return cli_usage(command, "--input takes a JSON object: %s", reason.text);
            }
        } else {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
    }
    request.input = input;
    request.action = optind < argc ? argv[optind] : "list";
    bool is_known = false;
    for (size_t i = 0; i < CV_COUNT(actions); i++) {
        is_known = is_known || strcmp(request.action, actions[i]) == 0;
    }
    if (!is_known) {
        return cli_usage(command, "runs cannot '%s'", request.action);
    }
    int wanted = strcmp(request.action, "list") == 0 ? 0 : 1;
    if ((optind < argc ? argc - optind - 1 : 0) != wanted) {
        return cli_usage(command, wanted ? "%s needs one argument" : "%s takes no more arguments",
                         request.action);
    }
    if ((request.video || request.input) && strcmp(request.action, "start") != 0) {
        return cli_usage(command, "--video and --input go with start");
    }
    request.argument = wanted ? argv[optind + 1] : NULL;
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    return result ? result : act(&session, &request, error);
}

const struct cli_command cli_command_runs = {
    .name = "runs",
    .summary = "list, show, start, restart and cancel runs of workflows",
    .help = "usage: cortana runs [list | show ID | start WORKFLOW | restart ID | cancel ID]\n\n"
            "  list            those under way first, then the newest (50)\n"
            "  show ID         one run with its jobs\n"
            "  start WORKFLOW  its active version, for a video or on its own\n"
            "  restart ID      failed and canceled steps once more; what is done stays done\n"
            "  cancel ID       every job of it that is not done\n"
            "  --video V       start: an id, the beginning of one, a file's name, or last\n"
            "  --input JSON    start: an object, for the first steps and for {{input.…}}\n"
            "  --data DIR      the installation in DIR, even if DATABASE_URL is set\n\n"
            "ID may be the first letters of an id.\n",
    .run = run,
};
