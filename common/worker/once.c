#include "common/worker/once.h"

#include "common/broker/broker.h"
#include "common/worker/child.h"
#include "common/worker/scratch.h"
#include "common/worker/stage.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static pid_t stage_pid;

static void pass_signal_on(int number)
{
    (void)kill(stage_pid, number);
}

static void pass_signals_on(pid_t pid)
{
    stage_pid = pid;
    struct sigaction action = {.sa_handler = pass_signal_on, .sa_flags = SA_RESTART};
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
}

static int wait_for_stage(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return CV_EXIT_RETRY;
        }
    }
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    cv_log(CV_LOG_ERROR, "the stage ended by signal %d (%s)", WTERMSIG(status),
           strsignal(WTERMSIG(status)));
    return 128 + WTERMSIG(status); /* as a shell reports it */
}

/* Runs the stage's broker in this process, which is trusted and has no threads. */
static int serve_stage(const struct cv_stage_start *start, pid_t pid, const json_t *grants,
                       struct cv_broker_line *line)
{
    pass_signals_on(pid);
    close(cv_take_fd(&line->stage_fd));
    close(cv_take_fd(&line->stage_cancel_fd));
    struct cv_broker broker = {
        .fd = cv_take_fd(&line->broker_fd),
        .cancel_fd = cv_take_fd(&line->broker_cancel_fd),
        .grants = grants,
        .scratch = start->scratch,
        .file_bytes = cv_stage_file_bytes(start->stage),
        .stored_bytes = CV_SCRATCH_BYTES,
        .objects = CV_SCRATCH_FILES,
    };
    cv_broker_serve(&broker);
    return wait_for_stage(pid);
}

/* Runs the stage in a child process: inside the sandbox it could not remove its scratch directory,
 * and it must have neither the store nor the network. */
static int run_child(struct cv_stage_start *start, struct cv_scratch *scratch, int *ret_code,
                     struct cv_error *error)
{
    cv_auto(json_decref) json_t *grants = NULL;
    cv_auto(cv_broker_line_deinit) struct cv_broker_line line = CV_BROKER_LINE_INIT;
    int r = cv_grants_make(start->stage->grants, start->payload, &grants, error);
    r = r < 0 ? r : cv_broker_line_init(&line, error);
    if (r < 0) {
        return r;
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        return cv_fail_errno(error, errno, "cannot start the stage");
    }
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent) {
            _exit(CV_EXIT_RETRY);
        }
        close(cv_take_fd(&line.broker_fd));
        close(cv_take_fd(&line.broker_cancel_fd));
        cv_scratch_abandon(scratch); /* the directory and its lock belong to the parent */
        start->broker_fd = cv_take_fd(&line.stage_fd);
        start->cancel_fd = cv_take_fd(&line.stage_cancel_fd);
        *ret_code = cv_stage_process(start);
        return 0;
    }
    *ret_code = serve_stage(start, pid, grants, &line);
    return 0;
}

/* Makes the scratch directory and the broker that a supervisor would provide. */
static int run_by_hand(struct cv_stage_start *start, int *ret_code, struct cv_error *error)
{
    cv_auto(cv_scratch_close) struct cv_scratch scratch = CV_SCRATCH_INIT;
    cv_auto_free char *path = NULL;
    cv_auto(json_decref) json_t *payload = NULL;
    int r = cv_stage_read_payload(&payload, error);
    if (r == 0 && !start->scratch) {
        r = cv_scratch_open(&scratch, error);
        if (r == 0) {
            cv_scratch_sweep(&scratch, NULL);
        }
        r = r < 0 ? r : cv_scratch_make(&scratch, "once", &path, error);
        start->scratch = path;
    }
    start->payload = payload;
    return r < 0 ? r : run_child(start, &scratch, ret_code, error);
}

int cv_worker_once(const struct cv_stage *stage, const struct cv_worker_options *options)
{
    struct cv_stage_start start = {
        .stage = stage,
        .options = options,
        .scratch = options->scratch,
        .broker_fd = CV_STAGE_BROKER_FD,
        .cancel_fd = CV_STAGE_CANCEL_FD,
        .kept_fd = options->has_kept ? CV_STAGE_KEPT_FD : -1,
        .keep_fd = options->has_kept ? CV_STAGE_KEEP_FD : -1,
    };
    bool needs_broker = stage->needs & CV_STAGE_NEEDS_STORE;
    if (options->scratch && (options->has_broker || !needs_broker)) {
        return cv_stage_process(&start);
    }
    struct cv_error error;
    int code = CV_EXIT_RETRY;
    if (run_by_hand(&start, &code, &error) < 0) {
        cv_log_error(&error, stage->name);
        cv_auto(json_decref) json_t *object = NULL;
        code = cv_stage_failure(&error, &object);
        (void)cv_stage_print(STDOUT_FILENO, object);
    }
    return code;
}
