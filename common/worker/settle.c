#include "common/worker/settle.h"

#include "common/broker/broker.h"
#include "common/store/store.h"
#include "common/worker/claim.h"
#include "common/worker/environment.h"
#include "common/worker/metrics.h"
#include "common/worker/slots.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* ---- verdicts -------------------------------------------------------------------------------- */

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

#define FAIL(verdict, ...) (void)!cv_fail(&(verdict)->failure, __VA_ARGS__)

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
        FAIL(verdict, CV_ERROR_OUT_OF_MEMORY, "the stage used up its memory");
        return;
    }
    for (size_t i = 0; i < CV_COUNT(signal_meanings); i++) {
        if (signal_meanings[i].number == number) {
            FAIL(verdict, signal_meanings[i].type, "%s", signal_meanings[i].message);
            return;
        }
    }
    FAIL(verdict, CV_ERROR_STAGE_CRASHED, "the stage ended by signal %d", number);
}

/* Reads a failure. The stage names only the type, which must exist; the verdict comes from the
 * table. */
static void read_failure(const json_t *output, int code, struct cv_verdict_result *verdict)
{
    const json_t *object = json_object_get(output, "error");
    const char *name = json_string_value(json_object_get(object, "type"));
    const char *message = json_string_value(json_object_get(object, "message"));
    if (!name || !message) {
        FAIL(verdict, CV_ERROR_STAGE_PROTOCOL, "the stage ended with exit code %d and no error",
             code);
        return;
    }
    enum cv_error_type type = cv_error_type_from_name(name);
    if (strcmp(cv_error_type_name(type), name) != 0) {
        FAIL(verdict, CV_ERROR_STAGE_PROTOCOL, "the stage named an error type that does not exist");
        return;
    }
    if (type == CV_ERROR_CANCELED || type == CV_ERROR_LEASE_LOST) {
        /* Only this supervisor may ask a stage to stop, and it did not. */
        FAIL(verdict, CV_ERROR_STAGE_CRASHED, "the stage was terminated from outside");
        return;
    }
    const json_t *retry_after = json_object_get(object, "retry_after_ms");
    FAIL(verdict, type, "%s", message);
    if (!verdict->failure.message[0]) {
        FAIL(verdict, type, "the stage gives no reason");
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

enum { ARTIFACT_TYPE_SIZE = 96 }; /* a media type, with the NUL */

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
           is_text_or_missing(json_object_get(row, "content_type"), ARTIFACT_TYPE_SIZE) &&
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
        FAIL(verdict, CV_ERROR_STAGE_PROTOCOL, "the stage reported an error and success at once");
    } else if (!are_artifacts(artifacts, grants)) {
        FAIL(verdict, CV_ERROR_STAGE_PROTOCOL,
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
        FAIL(verdict, CV_ERROR_STAGE_PROTOCOL, "the stage's result is larger than %d MiB",
             CV_OUTPUT_MAX >> 20);
        return;
    }
    if (WIFSIGNALED(child->status)) {
        read_signal(child, verdict);
        return;
    }
    int code = WEXITSTATUS(child->status);
    if (code != CV_EXIT_DONE && !is_failure_code(code)) {
        FAIL(verdict, CV_ERROR_STAGE_PROTOCOL,
             "the stage ended with exit code %d, which says nothing", code);
        return;
    }
    if (child->output.failed) {
        FAIL(verdict, CV_ERROR_OUT_OF_MEMORY, "out of memory for the stage's result");
        return;
    }
    json_error_t reason;
    const char *text = child->output.data ? child->output.data : "";
    if (is_bomb(text, child->output.length)) {
        FAIL(verdict, CV_ERROR_STAGE_PROTOCOL, "the stage's result has more values than it may");
        return;
    }
    cv_auto(json_decref) json_t *output =
        json_loadb(text, child->output.length, JSON_REJECT_DUPLICATES, &reason);
    verdict->program = json_incref(json_object_get(output, "program"));
    (void)json_object_del(output, "program");
    if (!json_is_object(output)) {
        FAIL(verdict, CV_ERROR_STAGE_PROTOCOL, "the stage printed no JSON object (exit code %d)",
             code);
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

/* ---- settling -------------------------------------------------------------------------------- */

enum {
    /* A deadlock or a busy server does not last longer than a few tries; an error in this program
     * does. */
    TRIES_MAX = 5,
    STOPS_PAUSE_PROBES = 6, /* in intervals of again_ms: half a minute by default */
    FIRST_PAUSE_MS = 200,
    PAUSE_MAX_MS = 2000,
};

/* The part of a result that the API shows: its "summary" if it has one, otherwise all members but
 * lists, which have become rows. */
static json_t *shown_result(const json_t *result)
{
    json_t *summary = json_object_get(result, "summary");
    if (json_is_object(summary)) {
        return json_incref(summary);
    }
    json_t *shown = json_object();
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)result, name, value)
    {
        if (!json_is_array(value) && json_object_set(shown, name, value) != 0) {
            json_decref(shown);
            return NULL;
        }
    }
    return shown;
}

/* Commits all changes of a successful attempt in one transaction. */
static int commit_result(struct cv_supervisor *supervisor, struct cv_slot *slot,
                         struct cv_error *error)
{
    cv_auto(cv_db_rollback) struct cv_db *db = supervisor->db; /* does nothing after a commit */
    const struct cv_stage *stage = supervisor->stage;
    const struct cv_verdict_result *verdict = &slot->verdict;
    CV_TRY(cv_db_begin(db, error));
    CV_TRY(cv_queue_fence(db, slot->job, error));
    int r = stage->commit ? stage->commit(db, slot->job, verdict->result, error) : 0;
    if (r < 0) {
        return r;
    }
    if (json_array_size(verdict->artifacts) > 0) {
        CV_TRY(cv_queue_record_artifacts(db, slot->job, supervisor->bucket, verdict->artifacts,
                                         error));
    }
    cv_auto(json_decref) json_t *shown = shown_result(verdict->result);
    CV_TRY_MEMORY(shown, error, "the job's result");
    CV_TRY(cv_queue_complete(db, slot->job, shown, &slot->report, error));
    return cv_db_commit(db, error);
}

static int settle(struct cv_supervisor *supervisor, struct cv_slot *slot, struct cv_error *error)
{
    struct cv_error shown = slot->verdict.failure; /* the log has it with the keys */
    cv_hide_keys(shown.message);
    if (slot->stop == CV_STOP_CANCELED) {
        return cv_queue_settle_canceled(supervisor->db, slot->job, &slot->report, error);
    }
    if (slot->verdict.result) {
        return commit_result(supervisor, slot, error);
    }
    if (slot->stop == CV_STOP_SHUTDOWN) {
        return cv_queue_release(supervisor->db, slot->job, "the worker was shut down",
                                &slot->report, error);
    }
    if (slot->stop == CV_STOP_NOT_STARTED || slot->stop == CV_STOP_ENVIRONMENT) {
        return cv_queue_release(supervisor->db, slot->job, shown.message, &slot->report, error);
    }
    return cv_queue_fail(supervisor->db, slot->job, &shown, &slot->report, error);
}

static enum cv_end end_of(const struct cv_slot *slot, int outcome)
{
    if (slot->stop == CV_STOP_CANCELED) {
        return CV_END_CANCELED;
    }
    if (slot->verdict.result) {
        return CV_END_DONE;
    }
    if (slot->stop == CV_STOP_SHUTDOWN || slot->stop == CV_STOP_NOT_STARTED ||
        slot->stop == CV_STOP_ENVIRONMENT) {
        return CV_END_RELEASED;
    }
    return outcome == CV_QUEUE_RETRY ? CV_END_RETRY : CV_END_DEAD;
}

/* The job's status after this end. */
static const char *status_after(enum cv_end end)
{
    return end == CV_END_DONE       ? "done"
           : end == CV_END_CANCELED ? "canceled"
           : end == CV_END_RELEASED ? "queued"
                                    : "failed";
}

static void log_end(const struct cv_slot *slot)
{
    double took = (double)(cv_monotonic_ms() - slot->started_at) / 1000;
    if (slot->stop == CV_STOP_CANCELED) {
        cv_log(CV_LOG_INFO, "canceled after %.1f s", took);
    } else if (slot->verdict.result) {
        cv_log(CV_LOG_INFO, "done in %.1f s", took);
    } else if (slot->stop == CV_STOP_SHUTDOWN) {
        cv_log(CV_LOG_INFO, "released after %.1f s: the worker shuts down", took);
    } else if (slot->stop == CV_STOP_NOT_STARTED) {
        cv_log_error(&slot->verdict.failure, "released, because it could not be started here");
    } else if (slot->stop == CV_STOP_ENVIRONMENT) {
        cv_log_error(&slot->verdict.failure,
                     "released: the store, a disk or the installation refuses");
    } else {
        cv_log_error(&slot->verdict.failure, "failed");
    }
}

/* Stores the log of a job that is over. */
static void keep_log(struct cv_supervisor *supervisor, const struct cv_slot *slot, enum cv_end end)
{
    char *text = NULL;
    struct cv_error error;
    bool is_over = end == CV_END_DONE || end == CV_END_DEAD || end == CV_END_CANCELED;
    if (!supervisor->job_logs || !is_over) {
        return;
    }
    if (cv_queue_job_log(supervisor->db, slot->job->id, &text, &error) != 0) {
        cv_log(CV_LOG_DEBUG, "cannot read the job's log, so it is not stored: %s", error.message);
        return;
    }
    cv_job_logs_write(supervisor->job_logs, slot->job->id, text);
}

/* Counts stages that report a broken installation. A single one may have met a strange payload.
 * Several in a row may mean a broken installation, and a worker that continued would spend the
 * retries of all jobs. They may also have been compromised; then the jobs end after their retries,
 * because each attempt counts. */
static void count_stops(struct cv_supervisor *supervisor, const struct cv_slot *slot)
{
    if (slot->stop != CV_STOP_NONE || slot->verdict.failure.verdict != CV_VERDICT_STOP) {
        supervisor->stops_in_a_row = slot->verdict.result ? 0 : supervisor->stops_in_a_row;
    } else if (++supervisor->stops_in_a_row >= CV_STOPS_MAX) {
        int64_t pause = STOPS_PAUSE_PROBES * supervisor->again_ms;
        cv_log(CV_LOG_WARN,
               "%d stages in a row report that this installation cannot work: no stage is started "
               "for %lld s",
               supervisor->stops_in_a_row, (long long)pause / 1000);
        supervisor->pause_until = cv_monotonic_ms() + pause;
    }
}

/* After a failed report: plans another try if one may succeed; otherwise reports the job as failed;
 * otherwise drops it, and its lease expires. */
static bool try_again(struct cv_supervisor *supervisor, int index, const struct cv_error *error)
{
    struct cv_slot *slot = &supervisor->slots[index];
    int64_t now = cv_monotonic_ms();
    int64_t lease_end = cv_keeper_read(supervisor->keeper, index).lease_end;
    cv_supervisor_watch_database_room(supervisor, error);
    bool is_away = !cv_db_is_connected(supervisor->db) || error->type == CV_ERROR_CONNECTION ||
                   error->type == CV_ERROR_DISK_FULL; /* nothing can be written there */
    bool may_help =
        is_away || (error->verdict == CV_VERDICT_RETRY && slot->settle_tries < TRIES_MAX);
    if (may_help) {
        slot->settle_at = now + cv_pause_ms(slot->settle_tries - 1, FIRST_PAUSE_MS, PAUSE_MAX_MS);
        return slot->settle_at < lease_end;
    }
    if (!slot->verdict.result) {
        return false;
    }
    cv_verdict_deinit(&slot->verdict);
    slot->verdict.failure = *error;
    slot->settle_tries = 0;
    slot->settle_at = now;
    return true;
}

/* Whether the report must wait: the database is away, or it is not known yet what caused a failure.
 * The result is kept while its lease is valid. */
static bool must_wait(struct cv_supervisor *supervisor, int index)
{
    struct cv_slot *slot = &supervisor->slots[index];
    bool must_wait =
        cv_slot_is_in_doubt(supervisor, slot) || !cv_supervisor_is_connected(supervisor);
    return must_wait && slot->stop != CV_STOP_LEASE_LOST &&
           cv_monotonic_ms() < cv_keeper_read(supervisor->keeper, index).lease_end;
}

void cv_slot_settle(struct cv_supervisor *supervisor, int index)
{
    struct cv_slot *slot = &supervisor->slots[index];
    if (slot->phase != CV_SLOT_SETTLING || cv_monotonic_ms() < slot->settle_at ||
        must_wait(supervisor, index)) {
        return;
    }
    cv_supervisor_log_job(supervisor, slot);
    struct cv_error error;
    bool is_over = true;
    enum cv_end end = CV_END_LOST;
    if (slot->stop == CV_STOP_LEASE_LOST || !cv_supervisor_is_connected(supervisor)) {
        char trouble[CV_TROUBLE_SIZE];
        cv_keeper_trouble(supervisor->keeper, trouble);
        cv_log(CV_LOG_WARN, "lease lost, the attempt's result is discarded: %s",
               trouble[0] ? trouble : "another worker has the job");
    } else {
        slot->settle_tries++;
        int r = settle(supervisor, slot, &error);
        if (r == CV_LEASE_LOST) {
            cv_log(CV_LOG_WARN, "the job is no longer ours (lease lost, or settled before the "
                                "connection broke): the attempt's result is discarded");
        } else if (r < 0 && try_again(supervisor, index, &error)) {
            cv_log(CV_LOG_DEBUG, "cannot settle the job yet: %s", error.message);
            is_over = false;
        } else if (r < 0) {
            cv_log_error(&error, "cannot settle the job, so its lease will expire");
        } else {
            end = end_of(slot, r);
            cv_supervisor_watch_database_room(supervisor, NULL);
            cv_supervisor_log_job_as(supervisor, slot, status_after(end));
            log_end(slot);
            keep_log(supervisor, slot, end);
            count_stops(supervisor, slot);
        }
    }
    if (is_over) {
        cv_supervisor_count_end(supervisor, slot, end);
        cv_slot_clear(supervisor, index);
    }
    cv_supervisor_log_job(supervisor, NULL);
}
