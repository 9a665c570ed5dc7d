#include "common/worker/slots.h"

#include "common/worker/cgroup.h"
#include "common/worker/claim.h"
#include "common/worker/environment.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum {
    /* The pause after this machine could not start a stage (full disk, too many processes). The job
     * is given back; without a pause, the worker would claim and give back the whole queue. */
    START_PAUSE_MS = 30 * 1000,
    KILL_AFTER_MS = 5000,   /* long enough: a stage has nothing to clean up */
    LISTEN_AFTER_MS = 2000, /* reads pipes that another process holds open after the stage's exit */
};

static const char *const stop_words[] = {
    [CV_STOP_NONE] = "",
    [CV_STOP_TIME_LIMIT] = "its time is up",
    [CV_STOP_SCRATCH] = "it has left too much in its scratch directory",
    [CV_STOP_CANCELED] = "it was canceled",
    [CV_STOP_SHUTDOWN] = "the worker shuts down",
    [CV_STOP_NOT_STARTED] = "it could not be started",
    [CV_STOP_ENVIRONMENT] = "the store, a disk or the installation refuses",
    [CV_STOP_LEASE_LOST] = "its lease is lost",
};

static void bound_scratch(struct cv_supervisor *supervisor, struct cv_slot *slot)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    struct cv_error error;
    slot->most = supervisor->scratch_most;
    if (slot->job->video_id[0] && (supervisor->stage->needs & CV_STAGE_NEEDS_STORE) &&
        cv_supervisor_is_connected(supervisor) &&
        cv_db_run(supervisor->db, &rows, &error,
                  "SELECT original_size FROM videos WHERE id = $1::uuid AND original_size > 0",
                  slot->job->video_id) == 0 &&
        cv_db_rows(rows) > 0) {
        slot->most = cv_scratch_most_for(&slot->most, cv_db_int(rows, 0, "original_size", 0));
    }
}

static int make_scratch(struct cv_supervisor *supervisor, struct cv_slot *slot,
                        struct cv_error *error)
{
    (void)snprintf(slot->scratch_name, sizeof(slot->scratch_name), "%s-%d", slot->job->id,
                   slot->job->attempt);
    return cv_scratch_make(&supervisor->scratch, slot->scratch_name, &slot->scratch_path, error);
}

static int start(struct cv_supervisor *supervisor, struct cv_slot *slot, struct cv_error *error)
{
    if (!json_is_object(slot->job->payload)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "the payload is not a readable object");
    }
    CV_TRY(make_scratch(supervisor, slot, error));
    bound_scratch(supervisor, slot);
    cv_auto(cv_broker_line_deinit) struct cv_broker_line line = CV_BROKER_LINE_INIT;
    if (supervisor->stage->needs & CV_STAGE_NEEDS_STORE) {
        CV_TRY(cv_brokers_connect(&supervisor->brokers, supervisor->stage, slot->job,
                                  supervisor->worker_id, slot->scratch_path, &slot->most, &line,
                                  error));
    }
    int slots = supervisor->options.slots, cpus = cv_cgroup_cpus() / slots;
    int threads = supervisor->options.threads > 0 ? supervisor->options.threads : cpus;
    struct cv_child_params params = {
        .stage = supervisor->stage,
        .job = slot->job,
        .worker_id = supervisor->worker_id,
        .scratch = slot->scratch_path,
        .threads = threads > 0 ? threads : 1,
        .slots = slots,
        .groups = supervisor->stage->needs & CV_STAGE_RUNS_PROGRAMS ? NULL : &supervisor->groups,
        .line = &line,
    };
    return cv_child_start(&slot->child, &params, error);
}

void cv_slot_start(struct cv_supervisor *supervisor, int index, int64_t lease_end)
{
    struct cv_slot *slot = &supervisor->slots[index];
    slot->phase = CV_SLOT_RUNNING;
    slot->stop = CV_STOP_NONE;
    slot->started_at = cv_monotonic_ms();
    slot->limit_at = slot->started_at + slot->job->time_limit_ms;
    slot->got_to = 0;
    slot->kill_at = 0;
    slot->settle_tries = 0;
    slot->settle_at = 0;
    slot->question = 0;
    slot->awaits_room = false;
    slot->report = (struct cv_attempt_report){.exit_code = -1};
    slot->verdict = (struct cv_verdict_result){.result = NULL};
    slot->child = (struct cv_child)CV_CHILD_INIT;
    cv_keeper_hold(supervisor->keeper, index, slot->job, lease_end);
    cv_supervisor_log_job(supervisor, slot);
    cv_log(CV_LOG_INFO, "started");
    if (start(supervisor, slot, &slot->verdict.failure) < 0) {
        slot->phase = CV_SLOT_SETTLING;
        if (slot->verdict.failure.verdict == CV_VERDICT_RETRY) {
            slot->stop = CV_STOP_NOT_STARTED;
        }
    } else {
        cv_scratch_watch_add(supervisor->scratch_watch, index, slot->scratch_name, slot->child.pid,
                             &slot->most);
    }
    cv_supervisor_log_job(supervisor, NULL);
}

void cv_slot_stop(struct cv_supervisor *supervisor, struct cv_slot *slot,
                  enum cv_stop_reason reason, bool at_once)
{
    if (slot->phase != CV_SLOT_RUNNING) {
        return;
    }
    bool is_first = slot->stop == CV_STOP_NONE;
    if (is_first || reason == CV_STOP_LEASE_LOST) {
        slot->stop = reason;
    }
    int64_t now = cv_monotonic_ms();
    if (is_first) {
        cv_supervisor_log_job(supervisor, slot);
        cv_log(CV_LOG_WARN, "the stage is stopped: %s", stop_words[reason]);
        cv_supervisor_log_job(supervisor, NULL);
        cv_child_signal(&slot->child, SIGTERM);
        slot->kill_at = now + KILL_AFTER_MS;
    }
    if (at_once) {
        cv_child_signal(&slot->child, SIGKILL);
    }
}

void cv_slot_watch(struct cv_supervisor *supervisor, int index, int64_t now)
{
    struct cv_slot *slot = &supervisor->slots[index];
    if (slot->phase != CV_SLOT_RUNNING) {
        return;
    }
    struct cv_keeper_news news = cv_keeper_read(supervisor->keeper, index);
    if (news.lost || now >= news.lease_end - cv_supervisor_margin(supervisor)) {
        cv_slot_stop(supervisor, slot, CV_STOP_LEASE_LOST, true);
    } else if (news.cancel) {
        cv_slot_stop(supervisor, slot, CV_STOP_CANCELED, false);
    } else if (now >= slot->limit_at) {
        cv_slot_stop(supervisor, slot, CV_STOP_TIME_LIMIT, false);
    } else if (slot->stop != CV_STOP_SCRATCH &&
               cv_scratch_watch_is_over(supervisor->scratch_watch, index, slot->scratch_text)) {
        cv_slot_stop(supervisor, slot, CV_STOP_SCRATCH, true);
    }
    if (slot->kill_at && now >= slot->kill_at) {
        cv_child_signal(&slot->child, SIGKILL);
        slot->kill_at = now + KILL_AFTER_MS;
    }
    if (slot->child.exited && now >= slot->child.exited_at + LISTEN_AFTER_MS) {
        cv_child_hang_up(&slot->child);
    }
}

int64_t cv_slot_next_event(struct cv_supervisor *supervisor, int index)
{
    const struct cv_slot *slot = &supervisor->slots[index];
    if (slot->phase == CV_SLOT_FREE) {
        return INT64_MAX;
    }
    if (slot->phase == CV_SLOT_SETTLING) {
        /* The loop wakes up when the watch answers. */
        bool can_settle =
            cv_supervisor_is_connected(supervisor) && slot->question == 0 && !slot->awaits_room;
        return can_settle ? slot->settle_at : cv_keeper_read(supervisor->keeper, index).lease_end;
    }
    if (slot->child.exited) {
        return slot->child.exited_at + LISTEN_AFTER_MS;
    }
    struct cv_keeper_news news = cv_keeper_read(supervisor->keeper, index);
    int64_t next = slot->kill_at;
    if (!next) {
        int64_t trust = news.lease_end - cv_supervisor_margin(supervisor);
        next = slot->limit_at < trust ? slot->limit_at : trust;
    }
    return next;
}

/* ---- the end of a stage ---------------------------------------------------------------------- */

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void make_report(struct cv_slot *slot)
{
    struct cv_child *child = &slot->child;
    const char *output = child->output.data;
    if (output && child->output.length > CV_TAIL_MAX) {
        output += child->output.length - CV_TAIL_MAX;
    }
    bool exited = WIFEXITED(child->status);
    slot->report = (struct cv_attempt_report){
        .exit_code = exited ? WEXITSTATUS(child->status) : -1,
        .pid = child->pid,
        .cpu_seconds = seconds(child->usage.ru_utime) + seconds(child->usage.ru_stime),
        .peak_memory_bytes = (int64_t)child->usage.ru_maxrss * 1024,
        .stdout_tail = output,
        .stderr_tail = child->error_tail.data,
        .warnings = child->warnings,
    };
}

/* Adds to the report how the program ended that the stage has run. */
static void report_program(struct cv_slot *slot)
{
    const json_t *program = slot->program;
    const json_t *pid = json_object_get(program, "pid");
    const json_t *code = json_object_get(program, "exit_code");
    const char *output = json_string_value(json_object_get(program, "output"));
    if (json_is_integer(pid) && json_is_integer(code) && output) {
        slot->report.pid = (int)json_integer_value(pid);
        slot->report.exit_code = (int)json_integer_value(code);
        slot->report.stdout_tail = output;
    }
}

/* Determines the outcome. A stage that was told to stop has none of its own, unless it finished
 * nevertheless. */
static void read_verdict(const struct cv_stage *stage, struct cv_slot *slot)
{
    cv_auto(json_decref) json_t *grants = NULL;
    struct cv_error ignored;
    if (cv_grants_make(stage->grants, slot->job->payload, &grants, &ignored) < 0) {
        grants = NULL; /* no memory: no artifact is allowed, so the attempt fails */
    }
    cv_verdict_read(&slot->child, grants, &slot->verdict);
    json_decref(slot->program);
    slot->program = cv_take(slot->verdict.program);
    if (slot->stop == CV_STOP_TIME_LIMIT) {
        cv_verdict_deinit(&slot->verdict);
        int r = cv_fail(&slot->verdict.failure, CV_ERROR_TIMEOUT,
                        "the stage took longer than its limit of %lld s without getting on",
                        (long long)slot->job->time_limit_ms / 1000);
        (void)r;
    } else if (slot->stop == CV_STOP_SCRATCH) {
        cv_verdict_deinit(&slot->verdict);
        int r = cv_fail(&slot->verdict.failure, CV_ERROR_LIMIT_EXCEEDED, "%s", slot->scratch_text);
        (void)r;
    }
}

/* Extends the time limit when a job makes progress: long videos take long, but a job that makes no
 * progress is noticed as soon as with short ones. A stage's own reports count only within limits. */
static void prolong(struct cv_slot *slot)
{
    static const double step = 0.01;
    double fraction = slot->child.progress.fraction;
    if (fraction < slot->got_to + step) {
        return;
    }
    int64_t limit_ms = slot->job->time_limit_ms;
    int64_t last = slot->started_at + CV_TIME_LIMITS_MAX * limit_ms;
    int64_t wanted = cv_monotonic_ms() + limit_ms;
    slot->got_to = fraction;
    slot->limit_at = wanted < last ? wanted : last;
}

void cv_slot_pump(struct cv_supervisor *supervisor, int index)
{
    struct cv_slot *slot = &supervisor->slots[index];
    if (slot->phase != CV_SLOT_RUNNING) {
        return;
    }
    struct cv_child *child = &slot->child;
    cv_supervisor_log_job(supervisor, slot);
    cv_child_pump(child);
    if (child->output_too_large) {
        cv_child_signal(child, SIGKILL);
    }
    if (child->progress.is_new) {
        cv_keeper_progress(supervisor->keeper, index, &child->progress);
        prolong(slot);
        child->progress.is_new = false;
    }
    (void)cv_child_reap(child);
    if (cv_child_is_over(child)) {
        make_report(slot);
        read_verdict(supervisor->stage, slot);
        if (supervisor->stage->needs & CV_STAGE_RUNS_PROGRAMS) {
            report_program(slot);
        }
        cv_slot_doubt_environment(supervisor, slot);
        slot->phase = CV_SLOT_SETTLING;
        slot->settle_at = 0;
    }
    cv_supervisor_log_job(supervisor, NULL);
}

void cv_slot_remove_scratch(struct cv_supervisor *supervisor, struct cv_slot *slot)
{
    cv_auto_free char *path = cv_take(slot->scratch_path);
    int index = (int)(slot - supervisor->slots);
    struct cv_error error;
    if (path && cv_scratch_watch_discard(supervisor->scratch_watch, index, slot->scratch_name,
                                         &error) < 0) {
        cv_log_error(&error, "cannot remove the scratch directory");
    }
}

void cv_slot_clear(struct cv_supervisor *supervisor, int index)
{
    struct cv_slot *slot = &supervisor->slots[index];
    cv_keeper_let_go(supervisor->keeper, index);
    cv_child_deinit(&slot->child);
    cv_verdict_deinit(&slot->verdict);
    json_decref(slot->program);
    cv_slot_remove_scratch(supervisor, slot);
    cv_job_list_deinit(&slot->claimed);
    if (slot->stop == CV_STOP_NOT_STARTED) {
        supervisor->pause_until = cv_monotonic_ms() + START_PAUSE_MS;
    }
    *slot = (struct cv_slot){.phase = CV_SLOT_FREE, .child = CV_CHILD_INIT};
    supervisor->claim_at = 0;
}
