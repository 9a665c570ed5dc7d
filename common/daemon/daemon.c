#include "common/daemon/daemon.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    BEAT_MS = 10 * 1000,      /* between two signs of life during a long wait */
    RECONNECT_MS = 30 * 1000, /* time of one attempt, between two checks of the cancel object */
    AFTER_FAILURE_MS = 1000,
    SCHEMA_MS = 2000,    /* between two checks of a schema that does not fit */
    LEAVE_MS = 3 * 1000, /* time limit of the last update, because the database may be away */
};

/* ---- beginning and end ----------------------------------------------------------------------- */

static struct cv_cancel *told_to_stop;
static struct cv_probe *told_of_stop;

static void on_stop_signal(int number)
{
    (void)number;
    cv_probe_drain(told_of_stop);
    cv_cancel_request(told_to_stop, CV_CANCEL_ABORT);
}

/* Without SA_RESTART, so that a signal also ends a read of standard input. */
static int catch_signals(struct cv_daemon *daemon, struct cv_error *error)
{
    const struct sigaction action = {.sa_handler = on_stop_signal};
    told_to_stop = daemon->cancel;
    CV_TRY_ERRNO(sigaction(SIGTERM, &action, NULL) == 0 && sigaction(SIGINT, &action, NULL) == 0 &&
                     signal(SIGPIPE, SIG_IGN) != SIG_ERR,
                 error, "cannot catch SIGTERM");
    return 0;
}

int cv_daemon_open(const struct cv_daemon_params *params, struct cv_daemon *daemon,
                   struct cv_error *error)
{
    *daemon = (struct cv_daemon){.name = params->name};
    /* Stages of this user must not read this process's environment, which contains DATABASE_URL. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    cv_queue_name_worker(daemon->host, sizeof(daemon->host), daemon->id, sizeof(daemon->id));
    cv_log_set_context(&(const struct cv_log_context){.worker_id = daemon->id});
    int result = cv_cancel_new(&daemon->cancel, error);
    result = result ? result : catch_signals(daemon, error);
    const struct cv_probe_params probe = {params->name, params->listen, params->stall_ms,
                                          params->shows_fleet};
    result = result ? result : cv_probe_start(&probe, &daemon->probe, error);
    if (result) {
        cv_daemon_deinit(daemon);
        return result;
    }
    told_of_stop = daemon->probe;
    return 0;
}

void cv_daemon_deinit(struct cv_daemon *daemon)
{
    if (!daemon->cancel) {
        return;
    }
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    told_of_stop = NULL;
    cv_probe_stop(daemon->probe);
    cv_cancel_free(daemon->cancel);
    *daemon = (struct cv_daemon){.name = daemon->name};
}

int cv_daemon_exit_code(const char *name, const struct cv_error *error)
{
    cv_log_error(error, name);
    return error->verdict == CV_VERDICT_RETRY       ? CV_EXIT_RETRY
           : error->verdict == CV_VERDICT_PERMANENT ? CV_EXIT_PERMANENT
                                                    : CV_EXIT_STOP;
}

int cv_daemon_connect(const struct cv_daemon *daemon, const struct cv_daemon_db_params *params,
                      struct cv_db **ret_db, struct cv_error *error)
{
    const struct cv_db_params connection = {
        .application_name = params->application_name ? params->application_name : daemon->name,
        .cancel = daemon->cancel,
        .statement_timeout_ms = params->statement_timeout_ms,
    };
    CV_TRY(cv_db_open(&connection, ret_db, error));
    struct cv_error reason;
    if (params->channel && cv_db_listen(*ret_db, params->channel, &reason) != 0) {
        cv_log(CV_LOG_WARN, "polling only: %s", reason.message);
    }
    return 0;
}

/* ---- waiting --------------------------------------------------------------------------------- */

bool cv_daemon_is_stopping(const struct cv_daemon *daemon)
{
    return cv_cancel_level(daemon->cancel) != CV_CANCEL_NONE;
}

static bool is_connected(const struct cv_db *db)
{
    return db && cv_db_is_connected(db);
}

/* Consumes all notifications that have arrived, because one round handles all of them. */
static bool consume_notifications(struct cv_db *db)
{
    for (bool any = false;; any = true) {
        cv_auto_free char *channel = NULL;
        cv_auto_free char *payload = NULL;
        struct cv_error error;
        if (!is_connected(db) || cv_db_notification(db, &channel, &payload, &error) != 1) {
            return any;
        }
    }
}

void cv_daemon_wait(struct cv_daemon *daemon, struct cv_db *db, int64_t until)
{
    bool was_connected = is_connected(db);
    for (;;) {
        int64_t left = until - cv_monotonic_ms();
        cv_probe_beat(daemon->probe);
        if (left <= 0 || cv_daemon_is_stopping(daemon) || consume_notifications(db)) {
            return;
        }
        bool still_connected = is_connected(db);
        if (was_connected && !still_connected) {
            return; /* the next statement reports the lost connection */
        }
        struct pollfd polls[2] = {
            {.fd = cv_cancel_fd(daemon->cancel), .events = POLLIN},
            {.fd = still_connected ? cv_db_fd(db) : -1, .events = POLLIN},
        };
        (void)poll(polls, CV_COUNT(polls), left < BEAT_MS ? (int)left : BEAT_MS);
    }
}

void cv_daemon_set_reason(struct cv_daemon *daemon, const char *reason)
{
    if (reason && strncmp(daemon->reason, reason, sizeof(daemon->reason) - 1) != 0) {
        cv_log(CV_LOG_WARN, "not ready: %s", reason);
    }
    (void)snprintf(daemon->reason, sizeof(daemon->reason), "%s", reason ? reason : "");
    cv_probe_set_reason(daemon->probe, reason);
}

int cv_daemon_wait_for_database(struct cv_daemon *daemon,
                                int (*open)(void *opaque, struct cv_error *error), void *opaque,
                                struct cv_error *error)
{
    enum { PAUSE_MS = 2000 };
    int result = open(opaque, error);
    while (result && error->verdict == CV_VERDICT_RETRY && !cv_daemon_is_stopping(daemon)) {
        cv_daemon_set_reason(daemon, error->message);
        cv_daemon_wait(daemon, NULL, cv_monotonic_ms() + PAUSE_MS);
        result = open(opaque, error);
    }
    return cv_daemon_is_stopping(daemon) ? 0 : result;
}

int cv_daemon_check_schema(struct cv_daemon *daemon, struct cv_db *db, struct cv_error *error)
{
    char reason[CV_SCHEMA_REASON_SIZE] = "";
    int result = cv_queue_check_schema(db, reason, error);
    if (result == CV_QUEUE_SCHEMA) {
        cv_daemon_set_reason(daemon, reason);
    }
    return result;
}

int cv_daemon_wait_for_schema(struct cv_daemon *daemon, struct cv_db *db, struct cv_error *error)
{
    while (!cv_daemon_is_stopping(daemon)) {
        int result = cv_daemon_check_schema(daemon, db, error);
        if (result != CV_QUEUE_SCHEMA) {
            return result;
        }
        cv_daemon_wait(daemon, db, cv_monotonic_ms() + SCHEMA_MS);
    }
    return 0;
}

int cv_daemon_recover(struct cv_daemon *daemon, struct cv_db *db, const struct cv_error *failure,
                      struct cv_error *error)
{
    if (cv_daemon_is_stopping(daemon)) {
        return 0;
    }
    *error = *failure;
    if (failure->verdict == CV_VERDICT_STOP) {
        return -1;
    }
    cv_log_error(failure, daemon->name);
    cv_probe_set_reason(daemon->probe, failure->message);
    cv_daemon_wait(daemon, db, cv_monotonic_ms() + AFTER_FAILURE_MS);
    while (!cv_db_is_connected(db) && !cv_daemon_is_stopping(daemon)) {
        cv_probe_beat(daemon->probe);
        int result = cv_db_reconnect(db, RECONNECT_MS, error);
        if (result < 0 && error->verdict == CV_VERDICT_STOP) {
            return result;
        }
    }
    return 0;
}

/* ---- the row among the workers --------------------------------------------------------------- */

static int report(const struct cv_daemon *daemon, struct cv_db *db, const char *job_type,
                  const char *state, struct cv_error *error)
{
    const struct cv_worker_state row = {
        .id = daemon->id, .host = daemon->host, .job_type = job_type, .state = state};
    return cv_queue_report_worker(db, &row, error);
}

int cv_daemon_report(struct cv_daemon *daemon, struct cv_db *db, const char *job_type,
                     int64_t interval_ms, struct cv_error *error)
{
    int64_t now = cv_monotonic_ms();
    if (now < daemon->report_at) {
        return 0;
    }
    int result = report(daemon, db, job_type, "running", error);
    if (result < 0) {
        return result;
    }
    daemon->report_at = now + interval_ms;
    if (result == CV_QUEUE_DRAIN) {
        cv_log(CV_LOG_INFO, "told to go");
        cv_cancel_request(daemon->cancel, CV_CANCEL_DRAIN);
    }
    return 0;
}

void cv_daemon_leave(const struct cv_daemon *daemon, const char *job_type)
{
    const struct cv_db_params params = {.application_name = daemon->name,
                                        .connect_timeout_ms = LEAVE_MS,
                                        .statement_timeout_ms = LEAVE_MS};
    cv_auto(cv_db_close) struct cv_db *db = NULL;
    struct cv_error error;
    if (daemon->report_at > 0 && (cv_db_open(&params, &db, &error) < 0 ||
                                  report(daemon, db, job_type, "stopped", &error) < 0)) {
        cv_log(CV_LOG_DEBUG, "cannot mark this process as stopped: %s", error.message);
    }
}
