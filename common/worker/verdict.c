#include "common/worker/verdict.h"

#include "common/broker/broker.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* The meaning of a signal that has ended a stage. */
static const struct {
    int number;
    enum cv_error_type type;
    const char *message;
} signal_meanings[] = {
    {SIGXCPU, CV_ERROR_TIMEOUT, "the stage used up its CPU time"},
    {SIGXFSZ, CV_ERROR_LIMIT_EXCEEDED, "the stage wrote a file larger than it may"},
    {SIGSEGV, CV_ERROR_STAGE_CRASHED, "the stage crashed: invalid memory access"},
    {SIGBUS, CV_ERROR_STAGE_CRASHED, "the stage crashed: bus error"},
    {SIGABRT, CV_ERROR_STAGE_CRASHED, "the stage crashed: abort"},
    {SIGILL, CV_ERROR_STAGE_CRASHED, "the stage crashed: illegal instruction"},
    {SIGFPE, CV_ERROR_STAGE_CRASHED, "the stage crashed: arithmetic error"},
    {SIGSYS, CV_ERROR_STAGE_CRASHED, "the stage made a system call that it may not make"},
    {SIGKILL, CV_ERROR_STAGE_CRASHED,
     "the stage was killed from outside (by hand, or the machine "
     "ran out of memory)"},
    {SIGTERM, CV_ERROR_STAGE_CRASHED, "the stage was terminated from outside"},
};

/* Whether a stage may report a failure with this exit code; any other breaks the protocol. */
static bool is_failure_code(int code)
{
    return code == CV_EXIT_PERMANENT || code == CV_EXIT_RETRY || code == CV_EXIT_STOP;
}

static void fail(struct cv_verdict_result *verdict, enum cv_error_type type, const char *text)
{
    int r = cv_fail(&verdict->failure, type, "%s", text);
    (void)r;
}

/* Whether a crash was caused by a lack of memory: a library may abort then (C++'s bad_alloc does),
 * and the stage's memory was near its limit. */
static bool ran_out_of_memory(const struct cv_child *child)
{
    int64_t peak = (int64_t)child->usage.ru_maxrss * 1024;
    return peak > child->memory_bytes / 10 * 9;
}

static void read_signal(const struct cv_child *child, struct cv_verdict_result *verdict)
{
    int number = WTERMSIG(child->status);
    if ((number == SIGABRT || number == SIGSEGV || number == SIGKILL) && ran_out_of_memory(child)) {
        fail(verdict, CV_ERROR_OUT_OF_MEMORY, "the stage used up its memory");
        return;
    }
    for (size_t i = 0; i < CV_COUNT(signal_meanings); i++) {
        if (signal_meanings[i].number == number) {
            fail(verdict, signal_meanings[i].type, signal_meanings[i].message);
            return;
        }
    }
    int r =
        cv_fail(&verdict->failure, CV_ERROR_STAGE_CRASHED, "the stage ended by signal %d", number);
    (void)r;
}

/* Reads a failure. The stage names only the type, which must exist; the verdict comes from the
 * table. */
static void read_failure(const json_t *output, int code, struct cv_verdict_result *verdict)
{
    const json_t *object = json_object_get(output, "error");
    const char *name = json_string_value(json_object_get(object, "type"));
    const char *message = json_string_value(json_object_get(object, "message"));
    if (!name || !message) {
        int r = cv_fail(&verdict->failure, CV_ERROR_STAGE_PROTOCOL,
                        "the stage ended with exit code %d and no error", code);
        (void)r;
        return;
    }
    enum cv_error_type type = cv_error_type_from_name(name);
    if (strcmp(cv_error_type_name(type), name) != 0) {
        fail(verdict, CV_ERROR_STAGE_PROTOCOL, "the stage named an error type that does not exist");
        return;
    }
    if (type == CV_ERROR_CANCELED || type == CV_ERROR_LEASE_LOST) {
        /* Only this supervisor may ask a stage to stop, and it did not. */
        fail(verdict, CV_ERROR_STAGE_CRASHED, "the stage was terminated from outside");
        return;
    }
    const json_t *retry_after = json_object_get(object, "retry_after_ms");
    fail(verdict, type, message);
    if (!verdict->failure.message[0]) {
        fail(verdict, type, "the stage gives no reason");
    }
    if (json_is_integer(retry_after) && json_integer_value(retry_after) > 0) {
        verdict->failure.retry_after_ms = json_integer_value(retry_after);
    }
    if (json_is_true(json_object_get(object, "environment"))) {
        cv_error_suspect_environment(&verdict->failure);
    }
}

/* Whether the job's grants allow what the artifact says: a job has no access to another video's
 * objects. */
static bool is_own(const char *kind, const char *key, const json_t *grants)
{
    struct cv_error reason;
    unsigned access = strcmp(kind, "input") == 0    ? CV_GRANT_READ
                      : strcmp(kind, "output") == 0 ? CV_GRANT_WRITE
                                                    : 0;
    return access && cv_store_check_key(key, &reason) == 0 && cv_grants_allow(grants, access, key);
}

static bool is_text_or_missing(const json_t *value, size_t longest)
{
    return !value || json_is_null(value) ||
           (json_is_string(value) && json_string_length(value) < longest);
}

static bool is_artifact(const json_t *row, const json_t *grants)
{
    const char *kind = json_string_value(json_object_get(row, "kind"));
    const char *key = json_string_value(json_object_get(row, "key"));
    const json_t *size = json_object_get(row, "size");
    return kind && key && is_own(kind, key, grants) && json_is_integer(size) &&
           json_integer_value(size) >= 0 &&
           is_text_or_missing(json_object_get(row, "content_type"), CV_STORE_TYPE_SIZE) &&
           is_text_or_missing(json_object_get(row, "checksum"), CV_STORE_SHA256_SIZE);
}

static bool are_artifacts(const json_t *list, const json_t *grants)
{
    if (!json_is_array(list)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!is_artifact(json_array_get(list, i), grants)) {
            return false;
        }
    }
    return true;
}

static void read_result(json_t *output, const json_t *grants, struct cv_verdict_result *verdict)
{
    json_t *artifacts = json_object_get(output, "artifacts");
    if (json_object_get(output, "error")) {
        fail(verdict, CV_ERROR_STAGE_PROTOCOL, "the stage reported an error and success at once");
    } else if (!are_artifacts(artifacts, grants)) {
        fail(verdict, CV_ERROR_STAGE_PROTOCOL,
             "the stage's list of artifacts is not readable, or names what is not the job's");
    } else {
        verdict->artifacts = json_incref(artifacts);
        (void)json_object_del(output, "artifacts");
        verdict->result = json_incref(output);
    }
}

/* Whether parsing would take too much memory: "[{},{},…" takes eighty times its bytes. The limits
 * are those of a result of CV_OUTPUT_MAX bytes whose lists and objects have 40 bytes and whose
 * values have eight; characters within strings are counted, too. */
static bool is_bomb(const char *text, size_t length)
{
    enum { CONTAINERS_MAX = CV_OUTPUT_MAX / 40, VALUES_MAX = CV_OUTPUT_MAX / 8 };
    size_t containers = 0, values = 0;
    for (size_t i = 0; i < length; i++) {
        containers += text[i] == '{' || text[i] == '[';
        values += text[i] == ',';
    }
    return containers > CONTAINERS_MAX || values > VALUES_MAX;
}

void cv_verdict_read(const struct cv_child *child, const json_t *grants,
                     struct cv_verdict_result *verdict)
{
    *verdict = (struct cv_verdict_result){.result = NULL};
    if (child->output_too_large) {
        int r = cv_fail(&verdict->failure, CV_ERROR_STAGE_PROTOCOL,
                        "the stage's result is larger than %d MiB", CV_OUTPUT_MAX >> 20);
        (void)r;
        return;
    }
    if (WIFSIGNALED(child->status)) {
        read_signal(child, verdict);
        return;
    }
    int code = WEXITSTATUS(child->status);
    if (code != CV_EXIT_DONE && !is_failure_code(code)) {
        int r = cv_fail(&verdict->failure, CV_ERROR_STAGE_PROTOCOL,
                        "the stage ended with exit code %d, which says nothing", code);
        (void)r;
        return;
    }
    if (child->output.failed) {
        fail(verdict, CV_ERROR_OUT_OF_MEMORY, "out of memory for the stage's result");
        return;
    }
    json_error_t reason;
    const char *text = child->output.data ? child->output.data : "";
    if (is_bomb(text, child->output.length)) {
        fail(verdict, CV_ERROR_STAGE_PROTOCOL, "the stage's result has more values than it may");
        return;
    }
    cv_auto(json_decref) json_t *output =
        json_loadb(text, child->output.length, JSON_REJECT_DUPLICATES, &reason);
    verdict->program = json_incref(json_object_get(output, "program"));
    (void)json_object_del(output, "program");
    if (!json_is_object(output)) {
        int r = cv_fail(&verdict->failure, CV_ERROR_STAGE_PROTOCOL,
                        "the stage printed no JSON object (exit code %d)", code);
        (void)r;
    } else if (code == CV_EXIT_DONE) {
        read_result(output, grants, verdict);
    } else {
        read_failure(output, code, verdict);
    }
}

void cv_verdict_deinit(struct cv_verdict_result *verdict)
{
    json_decref(verdict->result);
    json_decref(verdict->artifacts);
    json_decref(verdict->program);
    verdict->program = NULL;
    verdict->result = NULL;
    verdict->artifacts = NULL;
}
