#include "common/worker/stage.h"

#include "common/broker/broker.h"
#include "common/worker/cgroup.h"
#include "common/worker/context.h"
#include "common/worker/sandbox.h"
#include "common/worker/spawn.h"

#include <signal.h>
#include <string.h>

/* The largest payload, bytes. The longest is OCR's list of frames, some 60 bytes each. */
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
    CV_TRY_ERRNO(sigaction(SIGTERM, &action, NULL) == 0 && sigaction(SIGINT, &action, NULL) == 0,
                 error, "cannot catch SIGTERM");
    return 0;
}

int cv_stage_read_payload(json_t **ret_payload, struct cv_error *error)
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
        CV_TRY_ERRNO(count >= 0, error, "cannot read the payload");
        cv_buffer_append(&text, chunk, (size_t)count);
        if (text.length > PAYLOAD_MAX) {
            return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload larger than %d bytes",
                           PAYLOAD_MAX);
        }
    }
    CV_TRY_MEMORY(!text.failed, error, "the payload");
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

/* Determines which sockets this job needs, and the ports. */
static int plan_network(struct cv_stage_context *context, const json_t *payload,
                        struct cv_sandbox *sandbox, struct cv_error *error)
{
    const struct cv_stage *stage = context->stage;
    uint16_t port = 0;
    /* The database is connected already, but canceling a statement takes a second connection. */
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
    CV_TRY(plan_network(context, payload, &sandbox, error));
    CV_TRY(cv_sandbox_enter(&sandbox, &layers, error));
    cv_sandbox_describe(layers, text);
    cv_log(CV_LOG_DEBUG, "sandbox: %s", text);
    return 0;
}

/* The number of this attempt at the job, from 1; 0 without a job. */
static int64_t job_attempt(void)
{
    int64_t attempt = 0;
    struct cv_error error;
    return cv_env_int("CORTANA_JOB_ATTEMPT", 0, 0, INT32_MAX, &attempt, &error) < 0 ? 0 : attempt;
}

/* Does everything that the sandbox would forbid. */
static int prepare(struct cv_stage_context *context, const json_t *payload,
                   const struct cv_stage_start *start, struct cv_error *error)
{
    CV_TRY(cv_cancel_new(&context->cancel, error));
    unsigned needs = context->stage->needs;
    CV_TRY(catch_stop_signals(context->cancel, error));
    if (needs & CV_STAGE_NEEDS_STORE) {
        CV_TRY(cv_broker_store_open(start->broker_fd, start->cancel_fd, &context->store, error));
        cv_store_set_cancel(context->store, context->cancel);
    }
    if (needs & CV_STAGE_NEEDS_DATABASE) {
        struct cv_db_params params = {
            .application_name = context->stage->name,
            .cancel = context->cancel,
        };
        CV_TRY(cv_db_open(&params, &context->db, error));
    }
    context->artifacts = json_array();
    CV_TRY_MEMORY(context->artifacts, error, "the artifacts");
    CV_TRY_ERRNO(setenv("TMPDIR", context->scratch, 1) == 0, error, "cannot set TMPDIR");
    return needs & CV_STAGE_RUNS_PROGRAMS ? 0 : enter_sandbox(context, payload, error);
}

/* *ret_program is set in any case: how a program ended that the stage has run, or NULL. */
static int run_stage(const struct cv_stage_start *start, json_t **ret_result, json_t **ret_program,
                     struct cv_error *error)
{
    *ret_program = NULL;
    cv_auto(json_decref) json_t *payload = json_incref(start->payload);
    CV_TRY(payload ? 0 : cv_stage_read_payload(&payload, error));
    int threads = start->options->threads;
    cv_auto(cv_stage_context_deinit) struct cv_stage_context context = {
        .stage = start->stage,
        .scratch = start->scratch,
        .threads = threads > 0 ? threads : cv_cgroup_cpus(),
        .progress_fd = start->options->progress_fd,
    };
    CV_TRY(prepare(&context, payload, start, error));
    cv_auto(json_decref) json_t *result = NULL;
    int r = start->stage->run(&context, payload, &result, error);
    *ret_program = cv_take(context.program);
    r = r < 0 ? r : cv_stage_uploads_wait(&context, error);
    r = r < 0 ? r : cv_stage_sort_artifacts(&context, error);
    if (r < 0) {
        return r;
    }
    if (!json_is_object(result)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "stage %s returned no object", start->stage->name);
    }
    CV_TRY_MEMORY(json_object_set(result, "artifacts", context.artifacts) == 0, error,
                  "the result");
    *ret_result = cv_take(result);
    return 0;
}

/* Chooses the exit code. A wrong setting must be corrected by a person, even if the error may be
 * retried. A supervisor uses the printed error, not this code. */
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

/* Makes the error's JSON object. A message that was truncated within a character is not valid
 * UTF-8, which JSON requires. */
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

enum cv_exit cv_stage_failure(struct cv_error *error, json_t **ret_object)
{
    *ret_object = error_object(error);
    return exit_code(error);
}

int cv_stage_print(int fd, const json_t *object)
{
    cv_auto_file FILE *file = fdopen(fd, "w");
    if (!file || json_dumpf(object, file, CV_JSON_KEPT) != 0 || fputc('\n', file) == EOF ||
        fflush(file) != 0) {
        return -1;
    }
    return 0;
}

/* Redirects standard output to standard error until the end, so that output of a library does not
 * spoil the result. */
static int divert_stdout(struct cv_error *error)
{
    cv_auto_fd int fd = dup(STDOUT_FILENO);
    CV_TRY_ERRNO(fd >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0, error,
                 "cannot set standard output aside");
    return cv_take_fd(&fd);
}

/* The supervisor's variables CORTANA_JOB_… name the job that the log lines belong to. */
static void set_log_context(void)
{
    struct cv_log_context context = {
        .worker_id = cv_env("CORTANA_JOB_WORKER", NULL),
        .job_type = cv_env("CORTANA_JOB_TYPE", NULL),
        .job_id = cv_env("CORTANA_JOB_ID", NULL),
        .status = cv_env("CORTANA_JOB_ID", NULL) ? "processing" : NULL,
        .video_id = cv_env("CORTANA_JOB_VIDEO", NULL),
        .tenant_id = cv_env("CORTANA_JOB_TENANT", NULL),
        .attempt = (int)job_attempt(),
    };
    cv_log_set_context(&context);
}

int cv_stage_process(const struct cv_stage_start *start)
{
    set_log_context();
    cv_variables_wipe(start->stage->needs);
    struct cv_error error;
    int output = divert_stdout(&error);
    if (output < 0) {
        cv_log_error(&error, start->stage->name);
        return CV_EXIT_RETRY;
    }
    cv_auto(json_decref) json_t *object = NULL;
    cv_auto(json_decref) json_t *program_end = NULL;
    enum cv_exit code = CV_EXIT_DONE;
    if (run_stage(start, &object, &program_end, &error) < 0) {
        code = cv_stage_failure(&error, &object);
        if (start->options->progress_fd < 0) {
            cv_log_error(&error, start->stage->name);
        }
    }
    if (object && program_end && json_object_set(object, "program", program_end) != 0) {
        cv_log(CV_LOG_WARN, "%s: no memory for the report about the program", start->stage->name);
    }
    if (!object || cv_stage_print(output, object) != 0) {
        cv_log(CV_LOG_ERROR, "%s: cannot print the result: %s", start->stage->name,
               strerror(errno));
        return CV_EXIT_RETRY;
    }
    return code;
}
