#include "common/worker/child.h"

#include "common/worker/cgroup.h"
#include "common/worker/sanitizer.h"
#include "common/worker/spawn.h"
#include "common/worker/stage.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum {
    CHUNK = 64 << 10,
    PROGRESS_TARGET = 3, /* descriptors in the stage, after the standard three */
    FILES_MAX = 1024,
    CPU_HARD_SECONDS = 5, /* SIGXCPU first; SIGKILL this much later */
};

static const int64_t default_memory_bytes = 4LL << 30;
static const int64_t default_file_bytes = 64LL << 30;

struct pipes {
    int input[2];
    int output[2];
    int error[2];
    int progress[2];
};

/* ---- arguments and environment of the child -------------------------------------------------- */

/* The limit of a stage's private memory, bytes, if no container limits it; see struct
 * cv_stage_limits. */
static int64_t memory_limit(const struct cv_stage *stage)
{
    return stage->limits.memory_bytes > 0 ? stage->limits.memory_bytes : default_memory_bytes;
}

int64_t cv_stage_file_bytes(const struct cv_stage *stage)
{
    return stage->limits.file_bytes > 0 ? stage->limits.file_bytes : default_file_bytes;
}

/* Adds secrets that are stored in files, read now: a stage cannot read these files itself. */
static int add_secrets(struct cv_buffer *text, unsigned needs, struct cv_error *error)
{
    for (char **entry = environ; *entry; entry++) {
        char name[NAME_MAX];
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
        if (!cv_setting_has_file(name) || !cv_variables_admits(*entry, needs)) {
            continue;
        }
        cv_auto_free char *value = NULL;
        CV_TRY(cv_setting_read(name, &value, error));
        cv_buffer_printf(text, "%s=%s%c", name, value, 0);
        explicit_bzero(value, strlen(value));
    }
    return 0;
}

static int plan_environment(struct cv_spawn *spawn, struct cv_buffer *text,
                            const struct cv_child_params *params, struct cv_error *error)
{
    const struct cv_job *job = params->job;
    /* Our own entries stand in one buffer, each NUL-terminated, so that one free() releases them. */
    cv_buffer_printf(text, "OMP_THREAD_LIMIT=1%c", 0);
    cv_buffer_printf(text, "TMPDIR=%s%c", params->scratch, 0);
    cv_buffer_printf(text, "CORTANA_JOB_WORKER=%s%c", params->worker_id, 0);
    cv_buffer_printf(text, "CORTANA_JOB_TYPE=%s%c", params->stage->job_type, 0);
    cv_buffer_printf(text, "CORTANA_JOB_ID=%s%c", job->id, 0);
    cv_buffer_printf(text, "CORTANA_JOB_VIDEO=%s%c", job->video_id, 0);
    cv_buffer_printf(text, "CORTANA_JOB_TENANT=%s%c", job->tenant_id, 0);
    cv_buffer_printf(text, "CORTANA_JOB_ATTEMPT=%d%c", job->attempt, 0);
    int r = add_secrets(text, params->stage->needs, error);
    if (r == 0 && text->failed) {
        r = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a stage's environment");
    }
    for (size_t at = 0; r == 0 && at < text->length; at += strlen(text->data + at) + 1) {
        r = cv_spawn_variable(spawn, text->data + at, error);
    }
    return r < 0 ? r : cv_spawn_inherit(spawn, params->stage->needs, error);
}

static void plan_limits(struct cv_spawn *spawn, const struct cv_child_params *params,
                        int64_t memory)
{
    const struct cv_stage_limits *wanted = &params->stage->limits;
    int64_t space = memory_limit(params->stage) * 2;
    int64_t file = cv_stage_file_bytes(params->stage);
    int64_t cpu =
        wanted->cpu_seconds > 0
            ? wanted->cpu_seconds
            : (CV_TIME_LIMITS_MAX * params->job->time_limit_ms / 1000 + 1) * params->threads;
    if (!CV_UNDER_SANITIZER) {
        /* RLIMIT_DATA counts private writable memory, which an attack or a leak would fill. Address
         * space also contains file mappings, shared memory and reservations, which cost nothing; so
         * its limit is higher and does not depend on the container. */
        cv_spawn_limit(spawn, RLIMIT_DATA, memory, memory);
        cv_spawn_limit(spawn, RLIMIT_AS, space, space);
    }
    cv_spawn_limit(spawn, RLIMIT_CPU, cpu, cpu + CPU_HARD_SECONDS);
    cv_spawn_limit(spawn, RLIMIT_FSIZE, file, file);
    cv_spawn_limit(spawn, RLIMIT_CORE, 0, 0);
    cv_spawn_limit(spawn, RLIMIT_NOFILE, FILES_MAX, FILES_MAX);
}

/* ---- pipes ----------------------------------------------------------------------------------- */

static void close_end(int *fd)
{
    if (*fd >= 0) {
        close(cv_take_fd(fd));
    }
}

static void close_pair(int pair[2])
{
    close_end(&pair[0]);
    close_end(&pair[1]);
}

static inline void pipes_deinit(struct pipes *pipes)
{
    close_pair(pipes->input);
    close_pair(pipes->output);
    close_pair(pipes->error);
    close_pair(pipes->progress);
}
CV_DEFINE_CLEANUP_ADDRESS(struct pipes, pipes_deinit)

static int make_pipe(int pair[2], struct cv_error *error)
{
    return pipe2(pair, O_CLOEXEC) == 0
               ? 0
               : cv_fail_errno(error, errno, "cannot make a pipe to a stage");
}

static int make_pipes(struct pipes *pipes, struct cv_error *error)
{
    CV_TRY(make_pipe(pipes->input, error));
    CV_TRY(make_pipe(pipes->output, error));
    CV_TRY(make_pipe(pipes->error, error));
    CV_TRY(make_pipe(pipes->progress, error));
    /* The stage's end of the progress pipe does not block either: if the pipe is full, a report is
     * dropped. */
    const int non_blocking[] = {pipes->input[1], pipes->output[0], pipes->error[0],
                                pipes->progress[0], pipes->progress[1]};
    for (size_t i = 0; i < CV_COUNT(non_blocking); i++) {
        CV_TRY_ERRNO(fcntl(non_blocking[i], F_SETFL, O_NONBLOCK) == 0, error,
                     "cannot set a pipe up");
    }
    return 0;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Buffers for the numbers on the command line. */
struct texts {
    char threads[16];
};

static int make_plan(struct cv_spawn *spawn, struct cv_buffer *text, struct texts *texts,
                     const struct cv_child_params *params, int64_t memory, struct cv_error *error)
{
    static char once[] = "--once", scratch[] = "--scratch", threads_option[] = "--threads";
    static char progress[] = "--progress-fd", progress_target[] = "3", broker[] = "--broker";
    (void)snprintf(texts->threads, sizeof(texts->threads), "%d", params->threads);
    char *const arguments[] = {
        (char *)params->stage->name,
        once,
        scratch,
        (char *)params->scratch,
        threads_option,
        texts->threads,
        progress,
        progress_target,
    };
    size_t count = CV_COUNT(arguments);
    (void)memcpy(spawn->arguments, arguments, sizeof(arguments));
    if (params->line->stage_fd >= 0) {
        spawn->arguments[count++] = broker;
    }
    plan_limits(spawn, params, memory);
    return plan_environment(spawn, text, params, error);
}

int cv_child_start(struct cv_child *child, const struct cv_child_params *params,
                   struct cv_error *error)
{
    *child = (struct cv_child)CV_CHILD_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_auto(pipes_deinit) struct pipes pipes = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    struct cv_spawn spawn = {
        .file_count = CV_STAGE_CANCEL_FD + 1, .is_stage = true, .yields = params->stage->yields};
    struct texts texts;
    struct cv_cgroup group;
    cv_cgroup_read(CV_CGROUP_ROOT, CV_CGROUP_MEMBERSHIP, &group);
    child->memory_bytes = cv_cgroup_stage_memory(&group, memory_limit(params->stage), params->slots,
                                                 params->line->stage_fd >= 0);
    CV_TRY(make_plan(&spawn, &text, &texts, params, child->memory_bytes, error));
    CV_TRY(make_pipes(&pipes, error));
    cv_auto_free char *payload = json_dumps(params->job->payload, CV_JSON_KEPT);
    CV_TRY_MEMORY(payload, error, "a payload");
    spawn.files[STDIN_FILENO] = pipes.input[0];
    spawn.files[STDOUT_FILENO] = pipes.output[1];
    spawn.files[STDERR_FILENO] = pipes.error[1];
    spawn.files[PROGRESS_TARGET] = pipes.progress[1];
    spawn.files[CV_STAGE_BROKER_FD] = params->line->stage_fd;
    spawn.files[CV_STAGE_CANCEL_FD] = params->line->stage_cancel_fd;
    if (params->groups) {
        cv_group_make(params->groups, child->memory_bytes, &child->group);
        spawn.has_group = child->group.fd >= 0;
        spawn.group_fd = child->group.fd;
    }
    CV_TRY(cv_spawn(&spawn, &child->pid, error));
    child->input_fd = cv_take_fd(&pipes.input[1]);
    child->output_fd = cv_take_fd(&pipes.output[0]);
    child->error_fd = cv_take_fd(&pipes.error[0]);
    child->progress_fd = cv_take_fd(&pipes.progress[0]);
    child->payload_length = strlen(payload);
    child->payload = cv_take(payload);
    return 0;
}

size_t cv_child_poll(const struct cv_child *child, struct pollfd polls[CV_CHILD_POLLS])
{
    size_t count = 0;
    const struct pollfd wanted[CV_CHILD_POLLS] = {
        {.fd = child->input_fd, .events = POLLOUT},
        {.fd = child->output_fd, .events = POLLIN},
        {.fd = child->error_fd, .events = POLLIN},
        {.fd = child->progress_fd, .events = POLLIN},
    };
    for (size_t i = 0; i < CV_CHILD_POLLS; i++) {
        if (wanted[i].fd >= 0) {
            polls[count++] = wanted[i];
        }
    }
    return count;
}

bool cv_child_is_over(const struct cv_child *child)
{
    return child->exited && child->output_fd < 0 && child->error_fd < 0 && child->progress_fd < 0;
}

/* ---- to the stage ---------------------------------------------------------------------------- */

static void write_payload(struct cv_child *child)
{
    while (child->input_fd >= 0) {
        size_t left = child->payload_length - child->payload_written;
        ssize_t count =
            left ? write(child->input_fd, child->payload + child->payload_written, left) : 0;
        if (count > 0) {
            child->payload_written += (size_t)count;
        } else if (left == 0 || (errno != EAGAIN && errno != EINTR)) {
            close_end(
                &child->input_fd); /* everything is written, or the stage has closed its end */
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

/* ---- from the stage -------------------------------------------------------------------------- */

/* Appends, and keeps only the last CV_TAIL_MAX bytes. */
static void keep_tail(struct cv_buffer *tail, const char *data, size_t length)
{
    if (length > CV_TAIL_MAX) {
        data += length - CV_TAIL_MAX;
        length = CV_TAIL_MAX;
    }
    if (tail->length + length > CV_TAIL_MAX) {
        size_t drop = tail->length + length - CV_TAIL_MAX;
        (void)memmove(tail->data, tail->data + drop, tail->length - drop);
        tail->length -= drop;
        tail->data[tail->length] = '\0';
    }
    cv_buffer_append(tail, data, length);
}

static void read_progress(struct cv_child *child, const char *line)
{
    if (++child->progress_count > CV_PROGRESS_MAX) {
        /* Otherwise its reports would occupy the supervisor for as long as it runs. */
        close_end(&child->progress_fd);
        return;
    }
    json_error_t reason;
    cv_auto(json_decref) json_t *report = json_loads(line, 0, &reason);
    const json_t *fraction = json_object_get(report, "fraction");
    if (!json_is_number(fraction)) {
        return;
    }
    const char *doing = json_string_value(json_object_get(report, "doing"));
    child->progress.fraction = fmin(fmax(json_number_value(fraction), 0.0), 1.0);
    (void)snprintf(child->progress.doing, sizeof(child->progress.doing), "%s", doing ? doing : "");
    child->progress.is_new = true;
}

static bool may_pass_on(struct cv_child *child, const char *line)
{
    if (child->log_is_full) {
        return false;
    }
    child->lines_passed_on++;
    child->bytes_passed_on += (int64_t)strlen(line);
    child->log_is_full =
        child->lines_passed_on > CV_LINES_MAX || child->bytes_passed_on > CV_LOG_BYTES_MAX;
    if (child->log_is_full) {
        cv_log(CV_LOG_WARN, "the stage logs more than %d lines or %d bytes; the rest is not shown",
               CV_LINES_MAX, CV_LOG_BYTES_MAX);
    }
    return !child->log_is_full;
}

/* Keeps a warning or an error of the stage for the job's timeline. If memory is lacking it is
 * dropped; the log has it. */
static void record_warning(struct cv_child *child, const json_t *line)
{
    const char *level = json_string_value(json_object_get(line, "level"));
    json_t *message = json_object_get(line, "message");
    if (!level || !json_is_string(message) ||
        (strcmp(level, "warn") != 0 && strcmp(level, "error") != 0) ||
        json_array_size(child->warnings) >= CV_WARNINGS_MAX) {
        return;
    }
    child->warnings = child->warnings ? child->warnings : json_array();
    (void)json_array_append_new(child->warnings,
                                json_pack("{s:s, s:O}", "level", level, "message", message));
}

/* Passes the stage's own log lines on as lines of its job; lines that its libraries print are
 * wrapped in one. */
static void pass_log_line(struct cv_child *child, const char *line)
{
    if (!may_pass_on(child, line)) {
        return;
    }
    json_error_t reason;
    cv_auto(json_decref) json_t *object = line[0] == '{' ? json_loads(line, 0, &reason) : NULL;
    cv_auto(json_decref) json_t *shown = NULL;
    struct cv_error error;
    if (json_is_object(object) && cv_redacted_json(object, &shown, &error) == 0) {
        cv_log_pass_on(shown);
        record_warning(child, shown);
    } else if (line[0]) {
        cv_log(CV_LOG_INFO, "stage: %s", line);
    }
}

typedef void read_line(struct cv_child *child, const char *line);

static void split_lines(struct cv_child *child, struct cv_lines *lines, const char *data,
                        size_t length, read_line *read)
{
    if (!lines->data) {
        lines->data = malloc(CV_LINE_MAX + 1);
        if (!lines->data) {
            return; /* without memory the line is dropped; the tail has it */
        }
    }
    for (size_t i = 0; i < length; i++) {
        bool ends = data[i] == '\n';
        if (!ends) {
            lines->data[lines->length++] = data[i];
        }
        if (ends || lines->length == CV_LINE_MAX) {
            lines->data[lines->length] = '\0';
            lines->length = 0;
            read(child, lines->data);
        }
    }
}

static void flush_lines(struct cv_child *child, struct cv_lines *lines, read_line *read)
{
    if (lines->length > 0) {
        split_lines(child, lines, "\n", 1, read);
    }
}

static void read_output(struct cv_child *child, const char *data, size_t length)
{
    if (child->output_too_large || child->output.length + length > CV_OUTPUT_MAX) {
        child->output_too_large = true;
        return;
    }
    cv_buffer_append(&child->output, data, length);
}

/* Reads one chunk; false if there is nothing more to read now. */
static bool read_chunk(int *fd, char *chunk, size_t *ret_length)
{
    if (*fd < 0) {
        return false;
    }
    ssize_t count = read(*fd, chunk, CHUNK);
    if (count > 0) {
        *ret_length = (size_t)count;
        return true;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_end(fd);
    }
    return false;
}

void cv_child_pump(struct cv_child *child)
{
    /* Limits the chunks, so that a stage that never stops writing does not keep the supervisor from
     * its other work. */
    enum { CHUNKS_AT_ONCE = 16 };
    char chunk[CHUNK];
    size_t length = 0;
    write_payload(child);
    for (int i = 0; i < CHUNKS_AT_ONCE && read_chunk(&child->output_fd, chunk, &length); i++) {
        read_output(child, chunk, length);
    }
    for (int i = 0; i < CHUNKS_AT_ONCE && read_chunk(&child->error_fd, chunk, &length); i++) {
        keep_tail(&child->error_tail, chunk, length);
        split_lines(child, &child->error_lines, chunk, length, pass_log_line);
    }
    for (int i = 0; i < CHUNKS_AT_ONCE && read_chunk(&child->progress_fd, chunk, &length); i++) {
        split_lines(child, &child->progress_lines, chunk, length, read_progress);
    }
    if (child->error_fd < 0) {
        flush_lines(child, &child->error_lines, pass_log_line);
    }
}

/* ---- its end --------------------------------------------------------------------------------- */

void cv_child_signal(const struct cv_child *child, int number)
{
    if (number == SIGKILL) {
        cv_group_kill(&child->group);
    }
    if (child->pid > 0 && !child->exited) {
        /* The stage's process group exists from its setsid on; just before that there is only the
         * process. */
        if (kill(-child->pid, number) != 0) {
            (void)kill(child->pid, number);
        }
    }
}

bool cv_child_reap(struct cv_child *child)
{
    if (child->exited) {
        return true;
    }
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
        return false;
    }
    /* Until the process is reaped, no other process can get its number or its group's. */
    (void)kill(-child->pid, SIGKILL);
    if (wait4(child->pid, &child->status, 0, &child->usage) != child->pid) {
        return false;
    }
    cv_group_remove(&child->group);
    child->exited = true;
    child->exited_at = cv_monotonic_ms();
    return true;
}

void cv_child_hang_up(struct cv_child *child)
{
    int *const fds[] = {&child->input_fd, &child->output_fd, &child->error_fd, &child->progress_fd};
    for (size_t i = 0; i < CV_COUNT(fds); i++) {
        close_end(fds[i]);
    }
}

void cv_child_deinit(struct cv_child *child)
{
    if (child->pid > 0 && !child->exited) {
        cv_child_signal(child, SIGKILL);
        (void)waitpid(child->pid, NULL, 0);
    }
    cv_group_remove(&child->group);
    cv_child_hang_up(child);
    free(child->payload);
    free(child->error_lines.data);
    free(child->progress_lines.data);
    cv_buffer_deinit(&child->output);
    cv_buffer_deinit(&child->error_tail);
    json_decref(child->warnings);
    *child = (struct cv_child)CV_CHILD_INIT;
}
