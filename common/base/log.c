#include "common/base/base.h"

#include <jansson.h>
#include <stdatomic.h>
#include <string.h>

static const char *const level_names[] = {"debug", "info", "warn", "error"};

enum { LEVEL_UNSET = -1 };
static atomic_int minimum_level = LEVEL_UNSET;

/* Separate for each thread, because log lines of other threads are not about this thread's job. */
static _Thread_local struct {
    char worker_id[160];
    char job_type[64];
    char job_id[40];
    char status[16];
    char video_id[40];
    char tenant_id[40];
    int attempt;
} log_context;

void cv_log_set_level(enum cv_log_level level)
{
    atomic_store(&minimum_level, (int)level);
}

static int current_level(void)
{
    int level = atomic_load(&minimum_level);
    if (level != LEVEL_UNSET) {
        return level;
    }
    level = CV_LOG_INFO;
    const char *wanted = cv_env("LOG_LEVEL", "info");
    for (size_t i = 0; i < CV_COUNT(level_names); i++) {
        if (strcmp(wanted, level_names[i]) == 0) {
            level = (int)i;
        }
    }
    atomic_store(&minimum_level, level);
    return level;
}

static void keep(char *target, size_t size, const char *text)
{
    (void)snprintf(target, size, "%s", text ? text : "");
}

void cv_log_set_context(const struct cv_log_context *context)
{
    keep(log_context.worker_id, sizeof(log_context.worker_id), context->worker_id);
    keep(log_context.job_type, sizeof(log_context.job_type), context->job_type);
    keep(log_context.job_id, sizeof(log_context.job_id), context->job_id);
    keep(log_context.status, sizeof(log_context.status), context->status);
    keep(log_context.tenant_id, sizeof(log_context.tenant_id), context->tenant_id);
    keep(log_context.video_id, sizeof(log_context.video_id), context->video_id);
    log_context.attempt = context->attempt;
}

static void set_text(json_t *line, const char *key, const char *text)
{
    if (text && text[0]) {
        (void)json_object_set_new(line, key, cv_json_text(text));
    }
}

static void set_own(json_t *line, const char *key, const char *text)
{
    (void)json_object_del(line, key);
    set_text(line, key, text);
}

void cv_log_pass_on(json_t *line)
{
    set_own(line, "worker_id", log_context.worker_id);
    set_own(line, "job_type", log_context.job_type);
    set_own(line, "job_id", log_context.job_id);
    set_own(line, "status", log_context.status);
    set_own(line, "video_id", log_context.video_id);
    set_own(line, "tenant_id", log_context.tenant_id);
    (void)json_object_del(line, "attempt");
    if (log_context.attempt > 0) {
        (void)json_object_set_new(line, "attempt", json_integer(log_context.attempt));
    }
    cv_auto_free char *text = json_dumps(line, JSON_COMPACT);
    if (text) {
        size_t length = strlen(text);
        text[length] = '\n'; /* replaces the NUL, which is no longer needed */
        ssize_t written = write(STDERR_FILENO, text, length + 1);
        (void)written;
    }
}

static void write_line(enum cv_log_level level, const char *message, const char *error_type)
{
    cv_auto(json_decref) json_t *line = json_object();
    if (!line) {
        return;
    }
    char timestamp[CV_TIMESTAMP_SIZE];
    set_text(line, "ts", cv_format_timestamp(cv_wall_ms(), timestamp));
    set_text(line, "level", level_names[level]);
    set_text(line, "message", message);
    set_text(line, "error_type", error_type);
    cv_log_pass_on(line);
}

void cv_log(enum cv_log_level level, const char *format, ...)
{
    if ((int)level < current_level()) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    char text[4096];
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    cv_redact(text);
    write_line(level, text, NULL);
}

void cv_log_error(const struct cv_error *error, const char *what)
{
    char text[sizeof(error->message) + 256];
    (void)snprintf(text, sizeof(text), "%s: %s", what, error->message);
    cv_redact(text);
    write_line(CV_LOG_ERROR, text, cv_error_type_name(error->type));
}
