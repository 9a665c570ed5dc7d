#include "common/worker/child.h"
#include "common/worker/sandbox.h"
#include "common/worker/scratch.h"
#include "common/worker/stage.h"
#include "common/worker/variables.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* A payload names objects; the longest is OCR's list of frames, some 60 bytes each. */
enum { PAYLOAD_MAX = 64 << 20 };

static struct cv_cancel *stop_request;

static void on_stop_signal(int number)
{
    (void)number;
    cv_cancel_request(stop_request, CV_CANCEL_ABORT);
}

static int catch_stop_signals(struct cv_cancel *cancel, struct cv_error *error)
{
    stop_request = cancel;
    struct sigaction action = {.sa_handler = on_stop_signal, .sa_flags = SA_RESTART};
    if (sigaction(SIGTERM, &action, NULL) != 0 || sigaction(SIGINT, &action, NULL) != 0) {
        return cv_fail_errno(error, errno, "cannot catch SIGTERM");
    }
    return 0;
}

static int read_payload(json_t **ret_payload, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    char chunk[65536];
    for (;;) {
        ssize_t count = read(STDIN_FILENO, chunk, sizeof(chunk));
        if (count == 0) {
            break;
        }
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return cv_fail_errno(error, errno, "cannot read the payload");
        }
        cv_buffer_append(&text, chunk, (size_t)count);
        if (text.length > PAYLOAD_MAX) {
            return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload larger than %d bytes",
                           PAYLOAD_MAX);
        }
    }
    if (text.failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the payload");
    }
    json_error_t reason;
    cv_auto(json_decref) json_t *payload =
        json_loadb(text.data ? text.data : "", text.length, JSON_REJECT_DUPLICATES, &reason);
    if (!json_is_object(payload)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload is not a JSON object: %s",
                       payload ? "another kind of value" : reason.text);
    }
    *ret_payload = cv_take(payload);
    return 0;
}

static void allow_port(struct cv_sandbox *sandbox, int port)
{
    if (port > 0) {
        sandbox->ports[sandbox->port_count++] = (uint16_t)port;
    }
}

/* Which sockets this job needs, and to where. */
static int plan_network(struct cv_stage_context *context, const json_t *payload,
                        struct cv_sandbox *sandbox, struct cv_error *error)
{
    const struct cv_stage *stage = context->stage;
    uint16_t port = 0;
    /* It is connected; a statement that is canceled needs a second connection. */
    int database_port = context->db ? cv_db_port(context->db) : 0;
    int r = stage->port ? stage->port(context, payload, &port, error) : 0;
    if (stage->needs & CV_STAGE_NEEDS_NETWORK) {
        sandbox->families = CV_SANDBOX_INET;
    } else if (context->db) {
        sandbox->families = database_port > 0 ? CV_SANDBOX_INET : CV_SANDBOX_UNIX;
    }
    allow_port(sandbox, database_port);
    allow_port(sandbox, port);
    return r;
}

static int enter_sandbox(struct cv_stage_context *context, const json_t *payload,
                         struct cv_error *error)
{
    struct cv_sandbox sandbox = {.scratch = context->scratch};
    unsigned layers = 0;
    char text[CV_SANDBOX_TEXT_SIZE];
    int r = plan_network(context, payload, &sandbox, error);
    r = r < 0 ? r : cv_sandbox_enter(&sandbox, &layers, error);
    if (r == 0) {
        cv_sandbox_describe(layers, text);
        cv_log(CV_LOG_DEBUG, "sandbox: %s", text);
    }
    return r;
}

/* Everything that needs more rights than the sandbox leaves is done before it. */
static int prepare(struct cv_stage_context *context, const json_t *payload, int broker_fd,
                   int cancel_fd, struct cv_error *error)
{
    int r = cv_cancel_new(&context->cancel, error);
    if (r < 0) {
        return r;
    }
    r = catch_stop_signals(context->cancel, error);
    if (r == 0 && (context->stage->needs & CV_STAGE_NEEDS_STORE)) {
        r = cv_broker_store_open(broker_fd, cancel_fd, &context->store, error);
        if (r == 0) {
            cv_store_set_cancel(context->store, context->cancel);
        }
    }
    if (r == 0 && (context->stage->needs & CV_STAGE_NEEDS_DATABASE)) {
        struct cv_db_params params = {
            .application_name = context->stage->name,
            .cancel = context->cancel,
        };
        r = cv_db_open(&params, &context->db, error);
    }
    context->artifacts = json_array();
    if (r == 0 && !context->artifacts) {
        r = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the artifacts");
    }
    if (r == 0 && setenv("TMPDIR", context->scratch, 1) != 0) {
        r = cv_fail_errno(error, errno, "cannot set TMPDIR");
    }
    return r < 0 || (context->stage->needs & CV_STAGE_RUNS_PROGRAMS)
               ? r
               : enter_sandbox(context, payload, error);
}

static void context_deinit(struct cv_stage_context *context)
{
    cv_uploads_free(context->uploads);
    cv_store_close(context->store);
    cv_db_close(context->db);
    cv_cancel_free(context->cancel);
    json_decref(context->artifacts);
}
CV_DEFINE_CLEANUP_ADDRESS(struct cv_stage_context, context_deinit)

static int compare_artifacts(const void *left, const void *right)
{
    const json_t *one = *(json_t *const *)left, *other = *(json_t *const *)right;
    int order = strcmp(json_string_value(json_object_get(one, "kind")),
                       json_string_value(json_object_get(other, "kind")));
    return order ? order
                 : strcmp(json_string_value(json_object_get(one, "key")),
                          json_string_value(json_object_get(other, "key")));
}

/* Objects are put in the order in which threads finish them; a result does not depend on that. */
static int sort_artifacts(struct cv_stage_context *context, struct cv_error *error)
{
    size_t count = json_array_size(context->artifacts);
    cv_auto_free json_t **rows = calloc(count + 1, sizeof(rows[0]));
    cv_auto(json_decref) json_t *sorted = json_array();
    if (!rows || !sorted) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the artifacts");
    }
    for (size_t i = 0; i < count; i++) {
        rows[i] = json_array_get(context->artifacts, i);
    }
    qsort(rows, count, sizeof(rows[0]), compare_artifacts);
    for (size_t i = 0; i < count; i++) {
        if (json_array_append(sorted, rows[i]) != 0) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the artifacts");
        }
    }
    json_decref(context->artifacts);
    context->artifacts = cv_take(sorted);
    return 0;
}

/* What one run of the stage is given. */
struct run {
    const struct cv_stage *stage;
    const struct cv_worker_options *options;
    const char *scratch;
    json_t *payload; /* NULL: it is read from standard input */
    int broker_fd, cancel_fd;
};

/* *ret_program is set in any case: how a program ended that the stage has run, or NULL. */
static int run_stage(const struct run *run, json_t **ret_result, json_t **ret_program,
                     struct cv_error *error)
{
    *ret_program = NULL;
    cv_auto(json_decref) json_t *payload = json_incref(run->payload);
    int r = payload ? 0 : read_payload(&payload, error);
    if (r < 0) {
        return r;
    }
    int threads = run->options->threads;
    cv_auto(context_deinit) struct cv_stage_context context = {
        .stage = run->stage,
        .scratch = run->scratch,
        .threads = threads > 0 ? threads : cv_worker_cpus(),
        .progress_fd = run->options->progress_fd,
    };
    r = prepare(&context, payload, run->broker_fd, run->cancel_fd, error);
    if (r < 0) {
        return r;
    }
    cv_auto(json_decref) json_t *result = NULL;
    r = run->stage->run(&context, payload, &result, error);
    *ret_program = cv_take(context.program);
    r = r < 0 ? r : cv_stage_uploads_wait(&context, error);
    r = r < 0 ? r : sort_artifacts(&context, error);
    if (r < 0) {
        return r;
    }
    if (!json_is_object(result)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "stage %s returned no object", run->stage->name);
    }
    if (json_object_set(result, "artifacts", context.artifacts) != 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the result");
    }
    *ret_result = cv_take(result);
    return 0;
}

/* A person must correct a wrong setting, even where the error may be retried. A supervisor decides by
 * the printed error, not by this code. */
static enum cv_exit exit_code(const struct cv_error *error)
{
    if (error->type == CV_ERROR_CONFIGURATION) {
        return CV_EXIT_STOP;
    }
    switch (error->verdict) {
    case CV_VERDICT_PERMANENT:
        return CV_EXIT_PERMANENT;
    case CV_VERDICT_STOP:
        return CV_EXIT_STOP;
    case CV_VERDICT_RETRY:
        break;
    }
    return CV_EXIT_RETRY;
}

/* A message cut to its length may end within a character, and then it is no JSON text. */
static json_t *error_object(struct cv_error *error)
{
    json_t *message = json_string(error->message);
    for (char *c = error->message; !message && *c; c++) {
        *c = (char)((unsigned char)*c < 0x80 ? *c : '?');
    }
    if (!message) {
        message = json_string(error->message);
    }
    return json_pack("{s:{s:s, s:o, s:b, s:b, s:I}}", "error", "type",
                     cv_error_type_name(error->type), "message", message, "retryable",
                     error->verdict == CV_VERDICT_RETRY, "environment", error->environment,
                     "retry_after_ms", (json_int_t)error->retry_after_ms);
}

static int print_object(int fd, const json_t *object)
{
    cv_auto_file FILE *file = fdopen(fd, "w");
    if (!file || json_dumpf(object, file, JSON_COMPACT) != 0 || fputc('\n', file) == EOF ||
        fflush(file) != 0) {
        return -1;
    }
    return 0;
}

/* A library that prints to standard output must not spoil the result: until the end, what it writes
 * there goes to standard error. */
static int divert_stdout(struct cv_error *error)
{
    cv_auto_fd int fd = dup(STDOUT_FILENO);
    if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        return cv_fail_errno(error, errno, "cannot set standard output aside");
    }
    return cv_take_fd(&fd);
}

/* The supervisor tells whose log lines these are. */
static void set_log_context(void)
{
    int64_t attempt = 0;
    struct cv_error error;
    if (cv_env_int("CORTANA_JOB_ATTEMPT", 0, 0, INT32_MAX, &attempt, &error) < 0) {
        attempt = 0;
    }
    struct cv_log_context context = {
        .worker_id = cv_env("CORTANA_JOB_WORKER", NULL),
        .job_type = cv_env("CORTANA_JOB_TYPE", NULL),
        .job_id = cv_env("CORTANA_JOB_ID", NULL),
        .status = cv_env("CORTANA_JOB_ID", NULL) ? "processing" : NULL,
        .video_id = cv_env("CORTANA_JOB_VIDEO", NULL),
        .tenant_id = cv_env("CORTANA_JOB_TENANT", NULL),
        .attempt = (int)attempt,
    };
    cv_log_set_context(&context);
}

static int run_once(const struct run *run)
{
    set_log_context();
    cv_variables_wipe(run->stage->needs);
    struct cv_error error;
    int output = divert_stdout(&error);
    if (output < 0) {
        cv_log_error(&error, run->stage->name);
        return CV_EXIT_RETRY;
    }
    cv_auto(json_decref) json_t *object = NULL;
    cv_auto(json_decref) json_t *program_end = NULL;
    enum cv_exit code = CV_EXIT_DONE;
    if (run_stage(run, &object, &program_end, &error) < 0) {
        code = exit_code(&error);
        object = error_object(&error);
        if (run->options->progress_fd < 0) {
            cv_log_error(&error, run->stage->name);
        }
    }
    if (object && program_end && json_object_set(object, "program", program_end) != 0) {
        cv_log(CV_LOG_WARN, "%s: no memory to tell how the program ended", run->stage->name);
    }
    if (!object || print_object(output, object) != 0) {
        cv_log(CV_LOG_ERROR, "%s: cannot print the result: %s", run->stage->name, strerror(errno));
        return CV_EXIT_RETRY;
    }
    return code;
}

/* ---- without a supervisor -------------------------------------------------------------------- */

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
    return 128 + WTERMSIG(status); /* as a shell says it */
}

/* This process has no threads and is trusted, so that it is the stage's broker itself. */
static int serve_stage(const struct run *run, pid_t pid, const json_t *grants,
                       struct cv_broker_line *line)
{
    pass_signals_on(pid);
    close(cv_take_fd(&line->stage_fd));
    close(cv_take_fd(&line->stage_cancel_fd));
    struct cv_broker broker = {
        .fd = cv_take_fd(&line->broker_fd),
        .cancel_fd = cv_take_fd(&line->broker_cancel_fd),
        .grants = grants,
        .scratch = run->scratch,
        .file_bytes = cv_stage_file_bytes(run->stage),
    };
    cv_broker_serve(&broker);
    return wait_for_stage(pid);
}

/* Runs the stage in a process of its own: from within its sandbox it could not remove its scratch
 * directory, and it shall have neither the store nor the network. */
static int run_child(struct run *run, struct cv_scratch *scratch, int *ret_code,
                     struct cv_error *error)
{
    cv_auto(json_decref) json_t *grants = NULL;
    cv_auto(cv_broker_line_deinit) struct cv_broker_line line = CV_BROKER_LINE_INIT;
    int r = cv_grants_make(run->stage->grants, run->payload, &grants, error);
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
        cv_scratch_abandon(scratch); /* the directory and its lock are the parent's */
        run->broker_fd = cv_take_fd(&line.stage_fd);
        run->cancel_fd = cv_take_fd(&line.stage_cancel_fd);
        *ret_code = run_once(run);
        return 0;
    }
    *ret_code = serve_stage(run, pid, grants, &line);
    return 0;
}

/* A person gets the scratch directory and the broker that a supervisor would give. */
static int run_by_hand(struct run *run, int *ret_code, struct cv_error *error)
{
    cv_auto(cv_scratch_close) struct cv_scratch scratch = CV_SCRATCH_INIT;
    cv_auto_free char *path = NULL;
    cv_auto(json_decref) json_t *payload = NULL;
    int r = read_payload(&payload, error);
    if (r == 0 && !run->scratch) {
        r = cv_scratch_open(&scratch, error);
        r = r < 0 ? r : cv_scratch_make(&scratch, "once", &path, error);
        run->scratch = path;
    }
    run->payload = payload;
    return r < 0 ? r : run_child(run, &scratch, ret_code, error);
}

int cv_worker_once(const struct cv_stage *stage, const struct cv_worker_options *options)
{
    struct run run = {
        .stage = stage,
        .options = options,
        .scratch = options->scratch,
        .broker_fd = CV_STAGE_BROKER_FD,
        .cancel_fd = CV_STAGE_CANCEL_FD,
    };
    bool needs_broker = stage->needs & CV_STAGE_NEEDS_STORE;
    if (options->scratch && (options->has_broker || !needs_broker)) {
        return run_once(&run);
    }
    struct cv_error error;
    int code = CV_EXIT_RETRY;
    if (run_by_hand(&run, &code, &error) < 0) {
        cv_log_error(&error, stage->name);
        code = exit_code(&error);
        cv_auto(json_decref) json_t *object = error_object(&error);
        (void)print_object(STDOUT_FILENO, object);
    }
    return code;
}
