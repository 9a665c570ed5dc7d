#include "common/broker/broker.h"
#include "common/worker/brokers.h"
#include "common/worker/child.h"
#include "common/worker/options.h"
#include "common/worker/scratch.h"
#include "common/worker/stage.h"
#include "common/worker/supervisor.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* ---- one job by hand ------------------------------------------------------------------------- */

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

static const char scratch_name[] = "once";

/* Ends a stage that leaves more in its scratch directory than it may, as the supervisor does. */
struct guard {
    const struct cv_scratch *scratch;
    pid_t pid;
    struct cv_scratch_usage most, seen;
    struct cv_background background;
    bool is_over; /* read when the thread has ended */
};

static void watch_scratch(void *opaque)
{
    enum { MEASURE_MS = 500 };
    struct guard *guard = opaque;
    CV_LOCK(&guard->background.mutex);
    while (!guard->is_over &&
           cv_background_wait(&guard->background, cv_monotonic_ms() + MEASURE_MS)) {
        guard->is_over = cv_scratch_exceeds(guard->scratch, scratch_name, guard->pid, &guard->most,
                                            &guard->seen);
    }
    if (guard->is_over) {
        (void)kill(guard->pid, SIGKILL); /* it is not reaped before the guard has ended */
    }
}

static void end_guard(struct guard *guard)
{
    siginfo_t info;
    while (waitid(P_PID, (id_t)guard->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    cv_background_stop(&guard->background, NULL, 0);
}

/* What the stage may write: by the size of its original, as with a supervisor. A store or a payload
 * that cannot be read is the stage's to report. */
static int read_most(const struct cv_stage_start *start, struct cv_scratch_usage *ret_most,
                     struct cv_error *error)
{
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    struct cv_error ignored;
    struct cv_object_info info;
    const char *key = json_string_value(json_object_get(start->payload, "s3_original_path"));
    CV_TRY(cv_scratch_most(ret_most, error));
    if (key && (start->stage->needs & CV_STAGE_NEEDS_STORE) &&
        cv_store_open(NULL, &store, &ignored) == 0 &&
        cv_store_head(store, key, &info, &ignored) == 0) {
        *ret_most = cv_scratch_most_for(ret_most, info.size);
    }
    return 0;
}

/* Runs the stage's broker in this process, which is trusted and had no threads when it forked. */
static int serve_stage(const struct cv_stage_start *start, const struct cv_scratch *scratch,
                       pid_t pid, const json_t *grants, struct cv_broker_line *line, int *ret_code,
                       struct cv_error *error)
{
    pass_signals_on(pid);
    close(cv_take_fd(&line->stage_fd));
    close(cv_take_fd(&line->stage_cancel_fd));
    struct guard guard = {.scratch = scratch, .pid = pid};
    CV_TRY(read_most(start, &guard.most, error));
    CV_TRY(cv_background_start(&guard.background, watch_scratch, &guard, error));
    struct cv_broker broker = {
        .fd = cv_take_fd(&line->broker_fd),
        .cancel_fd = cv_take_fd(&line->broker_cancel_fd),
        .grants = grants,
        .scratch = start->scratch,
        .file_bytes = cv_stage_file_bytes(start->stage),
        .stored_bytes = guard.most.bytes,
        .objects = guard.most.files,
    };
    cv_broker_serve(&broker);
    end_guard(&guard);
    *ret_code = wait_for_stage(pid);
    return !guard.is_over ? 0
                          : cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                                    "the stage's scratch directory holds %lld MiB in %lld files, "
                                    "and may hold %lld MiB in %lld files",
                                    (long long)guard.seen.bytes >> 20, (long long)guard.seen.files,
                                    (long long)guard.most.bytes >> 20, (long long)guard.most.files);
}

/* Runs the stage in a child process: inside the sandbox it could not remove its scratch directory,
 * and it must have neither the store nor the network. */
static int run_child(struct cv_stage_start *start, struct cv_scratch *scratch, int *ret_code,
                     struct cv_error *error)
{
    cv_auto(json_decref) json_t *grants = NULL;
    cv_auto(cv_broker_line_deinit) struct cv_broker_line line = CV_BROKER_LINE_INIT;
    CV_TRY(cv_grants_make(start->stage->grants, start->payload, &grants, error));
    CV_TRY(cv_broker_line_init(&line, error));
    pid_t parent = getpid();
    pid_t pid = fork();
    CV_TRY_ERRNO(pid >= 0, error, "cannot start the stage");
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
    return serve_stage(start, scratch, pid, grants, &line, ret_code, error);
}

static bool writes_objects(const struct cv_stage *stage)
{
    for (const struct cv_grant *grant = stage->grants; grant && grant->access; grant++) {
        if (grant->access & CV_GRANT_WRITE) {
            return true;
        }
    }
    return false;
}

static bool names_a_database(void)
{
    static const char *const names[] = {"DATABASE_URL", "DATABASE_URL_FILE", "PGHOST",
                                        "PGDATABASE",   "PGSERVICE",         "PGHOSTADDR"};
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        if (cv_env(names[i], NULL)) {
            return true;
        }
    }
    return false;
}

/* Refuses to work by hand on a video of an installation: its rows refer to bytes of the objects that
 * would be written again. */
static int refuse_known_video(const json_t *payload, struct cv_error *error)
{
    enum { PATIENCE_MS = 5000 };
    static const char way_out[] = "to write its objects all the same, say --overwrite; else set "
                                  "STORE_URL to a copy, and unset DATABASE_URL";
    const char *video = json_string_value(json_object_get(payload, "video_id"));
    if (!video || !cv_is_uuid(video) || !names_a_database()) {
        return 0;
    }
    const struct cv_db_params params = {.connect_timeout_ms = PATIENCE_MS,
                                        .statement_timeout_ms = PATIENCE_MS};
    cv_auto(cv_db_close) struct cv_db *db = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_open(&params, &db, error);
    result = result
                 ? result
                 : cv_db_run(db, &rows, error, "SELECT id FROM videos WHERE id = $1::uuid", video);
    if (result < 0) {
        struct cv_error reason = *error;
        return cv_fail(
            error, CV_ERROR_CONFIGURATION,
            "cannot see whether video %s belongs to the installation of DATABASE_URL (%s): %s",
            video, reason.message, way_out);
    }
    return cv_db_rows(rows) == 0
               ? 0
               : cv_fail(error, CV_ERROR_CONFIGURATION,
                         "video %s belongs to the installation of DATABASE_URL: %s", video,
                         way_out);
}

/* Makes the scratch directory and the broker that a supervisor would provide. */
static int run_by_hand(struct cv_stage_start *start, int *ret_code, struct cv_error *error)
{
    cv_auto(cv_scratch_close) struct cv_scratch scratch = CV_SCRATCH_INIT;
    cv_auto_free char *path = NULL;
    cv_auto(json_decref) json_t *payload = NULL;
    CV_TRY(cv_stage_read_payload(&payload, error));
    CV_TRY(writes_objects(start->stage) && !start->options->overwrites
               ? refuse_known_video(payload, error)
               : 0);
    if (!start->scratch) {
        CV_TRY(cv_scratch_open(&scratch, error));
        cv_scratch_sweep(&scratch, NULL);
        CV_TRY(cv_scratch_make(&scratch, scratch_name, &path, error));
        start->scratch = path;
    }
    start->payload = payload;
    return run_child(start, &scratch, ret_code, error);
}

/* Runs the stage once: payload on standard input, one JSON object on standard output; returns the
 * exit status. Makes a scratch directory and a broker unless a supervisor has made them. */
static int run_once(const struct cv_stage *stage, const struct cv_worker_options *options)
{
    struct cv_stage_start start = {
        .stage = stage,
        .options = options,
        .scratch = options->scratch,
        .broker_fd = CV_STAGE_BROKER_FD,
        .cancel_fd = CV_STAGE_CANCEL_FD,
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

static const char usage_format[] =
    "usage: %s [--slots N] [--poll-ms N] [--threads N] [--listen ADDR:PORT] [--no-listen]\n"
    "       %s --once [--overwrite] [--threads N] [--scratch DIR] [--progress-fd N] < "
    "payload.json\n"
    "\n"
    "  without --once   claim \"%s\" jobs and run them until SIGTERM\n"
    "    --slots N        jobs at the same time (1)\n"
    "    --poll-ms N      longest time between two looks for jobs, ms (2000)\n"
    "    --threads N      threads of each stage (default: the CPUs, divided by the slots)\n"
    "    --listen A:P     answer GET /healthz, /readyz and /metrics there, e.g. 0.0.0.0:9090\n"
    "                     (CORTANA_LISTEN)\n"
    "    --metrics-fleet  /metrics also shows the whole fleet; for one or two workers of a fleet\n"
    "    --no-listen      only poll, do not use LISTEN\n"
    "  --once           run the stage on one payload, print its result\n"
    "    --overwrite      also if the video is in the database of DATABASE_URL\n"
    "    --threads N      threads to use (default: the CPUs of this process)\n"
    "    --scratch DIR    an empty working directory (default: a private one, removed at the end)\n"
    "    --progress-fd N  write progress to this descriptor, one JSON object per line\n";

enum {
    SLOTS_MAX = 256,
    THREADS_MAX = 1024,
    POLL_MIN_MS = 10,
    POLL_MAX_MS = 600000,
    DESCRIPTOR_MAX = 1 << 20,
    STAGE_NAME_MAX = 64,
};

static bool parse(const struct cv_stage *stage, int argc, char **argv,
                  struct cv_worker_options *options, int *ret_exit)
{
    int64_t threads = options->threads, slots = options->slots, progress_fd = options->progress_fd;
    bool is_polling_only = false;
    char usage[sizeof(usage_format) + 3 * STAGE_NAME_MAX];
    const struct cv_option known[] = {
        {"once", .flag = &options->once},
        {"overwrite", .flag = &options->overwrites},
        {"scratch", .text = &options->scratch},
        {"threads", .integer = &threads, .least = 1, .most = THREADS_MAX},
        {"progress-fd", .integer = &progress_fd, .least = 0, .most = DESCRIPTOR_MAX},
        {"slots", .integer = &slots, .least = 1, .most = SLOTS_MAX},
        {"poll-ms", .integer = &options->poll_ms, .least = POLL_MIN_MS, .most = POLL_MAX_MS},
        {"listen", .text = &options->probe_address, .variable = "CORTANA_LISTEN"},
        {"metrics-fleet", .flag = &options->shows_fleet},
        {"no-listen", .flag = &is_polling_only},
        /* The supervisor passes these options to its child processes. */
        {"broker", .flag = &options->has_broker},
        {"broker-host", .flag = &options->is_broker_host},
    };
    const struct cv_program program = {stage->name, usage, known, CV_COUNT(known)};
    (void)snprintf(usage, sizeof(usage), usage_format, stage->name, stage->name, stage->job_type);
    if (!cv_parse_options(&program, argc, argv, ret_exit)) {
        return false;
    }
    options->threads = (int)threads;
    options->slots = (int)slots;
    options->progress_fd = (int)progress_fd;
    options->listen = !is_polling_only;
    return true;
}

/* Restarts the program with OMP_THREAD_LIMIT=1, because Tesseract's OpenMP threads cost more than
 * they gain: a stage has its own threads. libgomp reads the variable when it is loaded, before
 * main. */
static void limit_openmp(char **argv)
{
    static const char name[] = "OMP_THREAD_LIMIT";
    if (strcmp(cv_env(name, ""), "1") != 0 && setenv(name, "1", 1) == 0) {
        (void)execv("/proc/self/exe", argv);
        cv_log(CV_LOG_DEBUG, "cannot restart with %s=1: %s", name, strerror(errno));
    }
}

int cv_worker_main(const struct cv_stage *stage, int argc, char **argv)
{
    struct cv_worker_options options = {
        .progress_fd = -1,
        .slots = 1,
        .poll_ms = 2000,
    };
    int code = CV_EXIT_DONE;
    struct cv_error error;
    if (!parse(stage, argc, argv, &options, &code)) {
        return code;
    }
    if (options.is_broker_host) {
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        cv_broker_host(CV_BROKER_HOST_FD);
        return 0;
    }
    if (options.once) {
        limit_openmp(argv);
        return run_once(stage, &options);
    }
    if (stage->check && stage->check(&error) != 0) {
        cv_log_error(&error, stage->name);
        return CV_EXIT_STOP;
    }
    return cv_worker_supervise(stage, &options);
}
