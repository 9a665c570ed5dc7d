#include "common/worker/supervisor.h"

#include "common/worker/cgroup.h"
#include "common/worker/claim.h"
#include "common/worker/environment.h"
#include "common/worker/metrics.h"
#include "common/worker/sandbox.h"
#include "common/worker/settle.h"
#include "common/worker/slots.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

enum {
    LEASE_MS = 5 * 60 * 1000,
    HEARTBEAT_MS = 2 * 60 * 1000,
    GRACE_MS = 30 * 1000,
    MARGIN_PARTS = 10, /* the margin before a lease's end, as a part of the lease */
    LAST_SETTLE_MS = 10 * 1000,
    LAST_SETTLE_HURRY_MS = 3 * 1000, /* after a second signal */
    WAIT_MAX_MS = 60 * 1000,
    TURNS_A_LEASE = 10, /* at least this many, if /healthz reports them */
};

int64_t cv_supervisor_margin(const struct cv_supervisor *supervisor)
{
    return supervisor->lease_ms / MARGIN_PARTS;
}

void cv_supervisor_log_job(const struct cv_supervisor *supervisor, const struct cv_slot *slot)
{
    cv_supervisor_log_job_as(supervisor, slot, slot && slot->job ? "processing" : NULL);
}

void cv_supervisor_log_job_as(const struct cv_supervisor *supervisor, const struct cv_slot *slot,
                              const char *status)
{
    const struct cv_job *job = slot ? slot->job : NULL;
    struct cv_log_context context = {
        .worker_id = supervisor->worker_id,
        .job_type = supervisor->stage->job_type,
        .job_id = job ? job->id : NULL,
        .status = status,
        .video_id = job ? job->video_id : NULL,
        .tenant_id = job ? job->tenant_id : NULL,
        .attempt = job ? job->attempt : 0,
    };
    cv_log_set_context(&context);
}

/* ---- stopping -------------------------------------------------------------------------------- */

void cv_supervisor_drain(struct cv_supervisor *supervisor, const char *why)
{
    int64_t now = cv_monotonic_ms();
    supervisor->is_draining = true;
    supervisor->is_patient = false;
    supervisor->grace_end = now + supervisor->grace_ms;
    supervisor->give_up_at = supervisor->grace_end + LAST_SETTLE_MS;
    cv_probe_drain(supervisor->probe);
    cv_keeper_draining(supervisor->keeper);
    cv_log(CV_LOG_INFO, "claiming no more jobs: %s; running jobs have %lld s", why,
           (long long)supervisor->grace_ms / 1000);
}

/* Stops claiming because an operator asked for it; running stages may finish. */
static void drain_patiently(struct cv_supervisor *supervisor)
{
    if (supervisor->is_draining) {
        return;
    }
    supervisor->is_draining = true;
    supervisor->is_patient = true;
    supervisor->grace_end = INT64_MAX;
    supervisor->give_up_at = INT64_MAX;
    cv_probe_drain(supervisor->probe);
    cv_keeper_draining(supervisor->keeper);
    cv_log(CV_LOG_INFO,
           "claiming no more jobs: an operator drains this worker; running jobs may finish");
}

static void stop_all(struct cv_supervisor *supervisor, bool at_once)
{
    for (int i = 0; i < supervisor->options.slots; i++) {
        cv_slot_stop(supervisor, &supervisor->slots[i], CV_STOP_SHUTDOWN, at_once);
    }
}

static void on_stop_signal(struct cv_supervisor *supervisor, unsigned number)
{
    if (!supervisor->is_draining || supervisor->is_patient) {
        cv_supervisor_drain(supervisor, strsignal((int)number));
        return;
    }
    cv_log(CV_LOG_INFO, "asked to stop twice: running jobs are released at once");
    supervisor->grace_end = cv_monotonic_ms();
    supervisor->give_up_at = supervisor->grace_end + LAST_SETTLE_HURRY_MS;
    stop_all(supervisor, true);
}

static void read_signals(struct cv_supervisor *supervisor)
{
    struct signalfd_siginfo info;
    while (read(supervisor->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) { /* SIGCHLD only wakes the loop, which checks each slot */
            on_stop_signal(supervisor, info.ssi_signo);
        }
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void watch_grace(struct cv_supervisor *supervisor, int64_t now)
{
    if (supervisor->is_draining && now >= supervisor->grace_end) {
        stop_all(supervisor, false);
    }
}

static bool is_finished(const struct cv_supervisor *supervisor)
{
    return supervisor->is_draining &&
           (cv_supervisor_count_free(supervisor) == supervisor->options.slots ||
            cv_monotonic_ms() >= supervisor->give_up_at);
}

static void wait_for_events(struct cv_supervisor *supervisor, struct pollfd *polls)
{
    int64_t next = INT64_MAX;
    size_t count = 0;
    bool is_connected = cv_supervisor_is_connected(supervisor);
    polls[count++] = (struct pollfd){.fd = supervisor->signal_fd, .events = POLLIN};
    polls[count++] = (struct pollfd){.fd = supervisor->news_fd, .events = POLLIN};
    if (is_connected) {
        polls[count++] = (struct pollfd){.fd = cv_db_fd(supervisor->db), .events = POLLIN};
    }
    for (int i = 0; i < supervisor->options.slots; i++) {
        int64_t at = cv_slot_next_event(supervisor, i);
        next = at < next ? at : next;
        if (supervisor->slots[i].phase == CV_SLOT_RUNNING) {
            count += cv_child_poll(&supervisor->slots[i].child, polls + count);
        }
    }
    int64_t own = INT64_MAX;
    if (supervisor->is_draining) {
        int64_t now = cv_monotonic_ms();
        own = now < supervisor->grace_end ? supervisor->grace_end : supervisor->give_up_at;
    } else if (is_connected && !supervisor->can_keep) {
        own = supervisor->give_way_at; /* news from the keeper wakes the loop earlier */
    } else if (is_connected && !supervisor->schema_trouble[0] &&
               cv_supervisor_count_free(supervisor) > 0 &&
               cv_supervisor_environment_works(supervisor)) {
        own = supervisor->claim_at > supervisor->pause_until ? supervisor->claim_at
                                                             : supervisor->pause_until;
    }
    next = own < next ? own : next;
    next = supervisor->disk_at < next ? supervisor->disk_at : next;
    if (!is_connected && supervisor->connect_at < next) {
        next = supervisor->connect_at;
    }
    if (is_connected && supervisor->schema_at < next) {
        next = supervisor->schema_at;
    }
    int64_t wait = next - cv_monotonic_ms();
    int64_t most = supervisor->probe ? supervisor->lease_ms / TURNS_A_LEASE : WAIT_MAX_MS;
    most = most < WAIT_MAX_MS ? most : WAIT_MAX_MS;
    (void)poll(polls, count, wait <= 0 ? 0 : (int)(wait < most ? wait : most));
}

/* Sets the answers of /healthz and /readyz. */
static void update_probe(struct cv_supervisor *supervisor)
{
    if (!supervisor->probe) {
        return;
    }
    char text[CV_WATCH_TROUBLE_SIZE + CV_SCHEMA_REASON_SIZE + 64] = "";
    char trouble[CV_TROUBLE_SIZE];
    cv_keeper_trouble(supervisor->keeper, trouble);
    if (!cv_supervisor_is_connected(supervisor)) {
        (void)snprintf(text, sizeof(text), "no connection to the database%s%s",
                       supervisor->connect_trouble[0] ? ": " : "", supervisor->connect_trouble);
    } else if (supervisor->schema_trouble[0]) {
        (void)snprintf(text, sizeof(text), "%s", supervisor->schema_trouble);
    } else if (supervisor->database_full_at) { /* the keeper's writes fail by that, too */
        (void)snprintf(text, sizeof(text), "the disk of the database is full");
    } else if (trouble[0]) {
        (void)snprintf(text, sizeof(text), "the database does not answer: %s", trouble);
    } else if (supervisor->environment_trouble[0]) {
        (void)snprintf(text, sizeof(text), "%s", supervisor->environment_trouble);
    } else if (supervisor->is_in_doubt) {
        (void)snprintf(text, sizeof(text), "it is not known yet whether the store works");
    }
    cv_probe_set_reason(supervisor->probe, text[0] ? text : NULL);
    cv_supervisor_count_turn(supervisor);
    cv_probe_beat(supervisor->probe);
}

static int run_loop(struct cv_supervisor *supervisor, struct cv_error *error)
{
    size_t fixed = 3;
    cv_auto_free struct pollfd *polls =
        calloc(fixed + CV_CHILD_POLLS * (size_t)supervisor->options.slots, sizeof(*polls));
    CV_TRY_MEMORY(polls, error, "the loop");
    while (!is_finished(supervisor)) {
        CV_TRY(cv_supervisor_connect(supervisor, cv_monotonic_ms(), error));
        cv_supervisor_watch_keeper(supervisor, cv_monotonic_ms());
        cv_supervisor_check_schema(supervisor, cv_monotonic_ms());
        cv_supervisor_watch_environment(supervisor, cv_monotonic_ms());
        CV_TRY(cv_supervisor_claim(supervisor, cv_monotonic_ms(), error));
        if (is_finished(supervisor)) {
            break; /* the claim has found nothing to wait for */
        }
        cv_supervisor_read_notifications(supervisor);
        update_probe(supervisor);
        wait_for_events(supervisor, polls);
        cv_wakeup_clear(supervisor->news_fd);
        read_signals(supervisor);
        cv_supervisor_read_notifications(supervisor);
        int64_t now = cv_monotonic_ms();
        watch_grace(supervisor, now);
        if (cv_keeper_told_to_drain(supervisor->keeper)) {
            drain_patiently(supervisor);
        }
        for (int i = 0; i < supervisor->options.slots; i++) {
            cv_slot_pump(supervisor, i);
            cv_slot_watch(supervisor, i, now);
            cv_slot_settle(supervisor, i);
        }
    }
    return 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static int read_settings(struct cv_supervisor *supervisor, struct cv_error *error)
{
    enum { MOST_MS = 24 * 60 * 60 * 1000, LEAST_LEASE_MS = 500 };
    CV_TRY(cv_env_int("CORTANA_LEASE_MS", LEASE_MS, LEAST_LEASE_MS, MOST_MS, &supervisor->lease_ms,
                      error));
    int64_t heartbeat =
        supervisor->lease_ms == LEASE_MS ? HEARTBEAT_MS : supervisor->lease_ms * 2 / 5;
    CV_TRY(cv_env_int("CORTANA_HEARTBEAT_MS", heartbeat, 50, MOST_MS, &supervisor->heartbeat_ms,
                      error));
    CV_TRY(cv_env_int("CORTANA_GRACE_MS", GRACE_MS, 0, MOST_MS, &supervisor->grace_ms, error));
    CV_TRY(cv_scratch_most(&supervisor->scratch_most, error));
    if (supervisor->heartbeat_ms >= supervisor->lease_ms) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "CORTANA_HEARTBEAT_MS must be less than CORTANA_LEASE_MS");
    }
    return 0;
}

static int open_signals(struct cv_supervisor *supervisor, struct cv_error *error)
{
    sigset_t set;
    (void)sigemptyset(&set);
    const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    for (size_t i = 0; i < CV_COUNT(numbers); i++) {
        (void)sigaddset(&set, numbers[i]);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot block signals");
    }
    supervisor->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return supervisor->signal_fd < 0 ? cv_fail_errno(error, errno, "signalfd") : 0;
}

/* Starts the probe. The loop counts as stuck after the time in which it loses all its leases. */
static int start_probe(struct cv_supervisor *supervisor, struct cv_error *error)
{
    const struct cv_probe_params params = {
        .program = supervisor->stage->name,
        .address = supervisor->options.probe_address,
        .stall_ms = supervisor->lease_ms,
        .shows_fleet = supervisor->options.shows_fleet,
    };
    CV_TRY(cv_probe_start(&params, &supervisor->probe, error));
    cv_supervisor_count_start(supervisor);
    return 0;
}

/* Logs which layers of the sandbox work here, before there are threads; fails if
 * CORTANA_SANDBOX=require and one is missing. */
static int try_sandbox(const struct cv_supervisor *supervisor, struct cv_error *error)
{
    unsigned needs = supervisor->stage->needs, layers = 0;
    char text[CV_SANDBOX_TEXT_SIZE];
    if (needs & CV_STAGE_RUNS_PROGRAMS) {
        cv_log(CV_LOG_INFO, "sandbox: none, because this stage runs programs of this machine");
        return 0;
    }
    const struct cv_sandbox sandbox = {
        .scratch = "/tmp",
        .families = needs & CV_STAGE_NEEDS_DATABASE ? CV_SANDBOX_INET : 0,
    };
    CV_TRY(cv_sandbox_try(&sandbox, &layers, error));
    cv_sandbox_describe(layers, text);
    cv_log(CV_LOG_INFO, "sandbox: %s; %s%s", text,
           supervisor->groups.why[0] ? "no cgroups of stages: " : "cgroups of stages",
           supervisor->groups.why);
    return 0;
}

static int supervisor_init(struct cv_supervisor *supervisor, struct cv_error *error)
{
    /* Other processes of this user must not read this process's environment, which has
     * DATABASE_URL. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    cv_queue_name_worker(supervisor->host, sizeof(supervisor->host), supervisor->worker_id,
                         sizeof(supervisor->worker_id));
    cv_supervisor_log_job(supervisor, NULL);
    CV_TRY(read_settings(supervisor, error));
    CV_TRY(open_signals(supervisor, error));
    cv_groups_open(CV_CGROUP_ROOT, CV_CGROUP_MEMBERSHIP, &supervisor->groups);
    CV_TRY(try_sandbox(supervisor, error));
    CV_TRY(start_probe(supervisor, error));
    CV_TRY(cv_wakeup_open(&supervisor->news_fd, error));
    CV_TRY(cv_supervisor_start_watch(supervisor, error));
    if (supervisor->stage->needs & CV_STAGE_NEEDS_STORE) {
        CV_TRY(cv_brokers_start(&supervisor->brokers, supervisor->stage, error));
    }
    CV_TRY(cv_job_logs_start(&supervisor->job_logs, error));
    CV_TRY(cv_scratch_open(&supervisor->scratch, error));
    CV_TRY(cv_scratch_watch_start(&supervisor->scratch, supervisor->options.slots,
                                  supervisor->news_fd, &supervisor->scratch_watch, error));
    supervisor->slots = calloc((size_t)supervisor->options.slots, sizeof(*supervisor->slots));
    CV_TRY_MEMORY(supervisor->slots, error, "the slots");
    for (int i = 0; i < supervisor->options.slots; i++) {
        supervisor->slots[i].child = (struct cv_child)CV_CHILD_INIT;
    }
    struct cv_keeper_params params = {
        .worker_id = supervisor->worker_id,
        .host = supervisor->host,
        .job_type = supervisor->stage->job_type,
        .slots = supervisor->options.slots,
        .lease_ms = supervisor->lease_ms,
        .heartbeat_ms = supervisor->heartbeat_ms,
        .news_fd = supervisor->news_fd,
    };
    return cv_keeper_start(&params, &supervisor->keeper, error);
}

static void supervisor_deinit(struct cv_supervisor *supervisor)
{
    if (supervisor->keeper) {
        for (int i = 0; i < supervisor->options.slots; i++) {
            cv_slot_clear(supervisor, i);
        }
        cv_keeper_stop(supervisor->keeper);
    }
    cv_job_logs_stop(supervisor->job_logs);
    cv_watch_stop(supervisor->watch);
    cv_brokers_stop(&supervisor->brokers);
    cv_probe_stop(supervisor->probe);
    free(supervisor->slots);
    free(supervisor->bucket);
    free(supervisor->store_directory);
    cv_scratch_watch_stop(supervisor->scratch_watch);
    cv_scratch_close(&supervisor->scratch);
    cv_groups_close(&supervisor->groups);
    cv_db_close(supervisor->db);
    const int fds[] = {supervisor->signal_fd, supervisor->news_fd};
    for (size_t i = 0; i < CV_COUNT(fds); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct cv_supervisor, supervisor_deinit)

int cv_worker_supervise(const struct cv_stage *stage, const struct cv_worker_options *options)
{
    cv_auto(supervisor_deinit) struct cv_supervisor supervisor = {
        .stage = stage,
        .options = *options,
        .listen = options->listen,
        .scratch = CV_SCRATCH_INIT,
        .signal_fd = -1,
        .news_fd = -1,
        .brokers = CV_BROKERS_INIT,
        .groups = CV_GROUPS_INIT,
    };
    struct cv_error error;
    int r = supervisor_init(&supervisor, &error);
    if (r == 0) {
        cv_log(CV_LOG_INFO, "%s %s: %d slots, lease %lld s", stage->name, CV_VERSION,
               options->slots, (long long)supervisor.lease_ms / 1000);
        r = run_loop(&supervisor, &error);
    }
    if (r < 0) {
        cv_log_error(&error, stage->name);
        /* If STORE_URL cannot be opened because of its value, a person must correct it. */
        bool may_pass = error.verdict == CV_VERDICT_RETRY && error.type != CV_ERROR_CONFIGURATION;
        return may_pass ? CV_EXIT_RETRY : CV_EXIT_STOP;
    }
    cv_log(CV_LOG_INFO, "stopped");
    return supervisor.exit_code;
}
