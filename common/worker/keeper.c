#include "common/worker/keeper.h"

#include <string.h>

enum {
    /* Progress is written this often while it changes … */
    PROGRESS_MS = 1000,
    /* … and at least this often, because the answer reports cancellations if LISTEN is not
     * available. */
    ASK_MS = 5000,
    ROW_MS = 2000,       /* from a change of the running jobs to the update of the worker's row */
    RECONNECT_MS = 2000, /* one attempt to connect to a database that is away */
    RECONNECT_PAUSE_MS = 500, /* between two attempts */
    CONNECT_TIMEOUT_MS = 5000,
    STATEMENT_TIMEOUT_MS = 30000,
    STOP_MS = 3000,
};

struct held {
    bool is_held;
    char job_id[CV_UUID_SIZE];
    int64_t token;
    int64_t lease_end;
    int64_t renew_at;
    int64_t report_at;
    int64_t ask_at;
    struct cv_progress progress;
    bool lost;
    bool cancel;
};

struct cv_keeper {
    struct cv_keeper_params params;
    struct cv_cancel *cancel;
    struct cv_background background; /* its mutex protects everything below */
    struct held *held;               /* one per slot */
    bool is_draining;
    bool told_to_drain;
    bool row_is_due;
    bool is_resting;
    bool can_keep;
    int64_t row_at;
    char trouble[CV_TROUBLE_SIZE]; /* error of the last call, "" if it succeeded */
    struct cv_db *db;              /* used by the thread only */
};

/* Stores the error for the loop, which logs it: the log's context belongs to the loop's thread. */
static void keep_trouble(struct cv_keeper *keeper, const struct cv_error *error)
{
    (void)snprintf(keeper->trouble, sizeof(keeper->trouble), "%s", error->message);
}

/* ---- the thread: with the database ----------------------------------------------------------- */

static int connect_database(struct cv_keeper *keeper, struct cv_error *error)
{
    if (keeper->db) {
        return cv_db_reconnect(keeper->db, RECONNECT_MS, error);
    }
    int64_t statement_ms = keeper->params.lease_ms / 4;
    struct cv_db_params params = {
        .application_name = "cortana keeper",
        .cancel = keeper->cancel,
        .connect_timeout_ms = CONNECT_TIMEOUT_MS,
        .statement_timeout_ms =
            statement_ms < STATEMENT_TIMEOUT_MS ? statement_ms + 1 : STATEMENT_TIMEOUT_MS,
    };
    return cv_db_open(&params, &keeper->db, error);
}

/* Writes the worker's row; returns the queue's outcome: CV_QUEUE_DRAIN if the worker is to stop. */
static int report_row(struct cv_keeper *keeper, const char *state, int running,
                      struct cv_error *error)
{
    struct cv_worker_state row = {
        .id = keeper->params.worker_id,
        .host = keeper->params.host,
        .job_type = keeper->params.job_type,
        .state = state,
        .slots = keeper->params.slots,
        .running = running,
    };
    return cv_queue_report_worker(keeper->db, &row, error);
}

/* Renews or reports one lease, unlocked; returns the queue's outcome. */
static int call_queue(struct cv_keeper *keeper, const struct held *job, bool renew,
                      struct cv_error *error)
{
    const struct cv_lease lease = {job->job_id, job->token};
    if (renew) {
        return cv_queue_renew(keeper->db, &lease, keeper->params.lease_ms, error);
    }
    return cv_queue_progress(keeper->db, &lease, job->progress.fraction, job->progress.doing,
                             error);
}

static void learn(struct cv_keeper *keeper, struct held *held, bool renewed, int64_t asked_at,
                  int outcome)
{
    if (outcome == CV_LEASE_LOST) {
        held->lost = true;
    } else if (outcome == CV_QUEUE_CANCEL) {
        held->cancel = true;
    }
    if (renewed && outcome != CV_LEASE_LOST) {
        /* Counted from before the call, because the server started its clock no earlier. */
        held->lease_end = asked_at + keeper->params.lease_ms;
        held->renew_at = asked_at + keeper->params.heartbeat_ms;
    }
    if (held->lost || held->cancel) {
        cv_wakeup_signal(keeper->params.news_fd);
    }
}

/* Called with the mutex held; it is released during the database call. */
static void serve(struct cv_keeper *keeper, int slot, int64_t now)
{
    struct held *held = &keeper->held[slot];
    bool renew = now >= held->renew_at;
    bool report = held->progress.is_new && now >= held->report_at;
    if (!held->is_held || held->lost || (!renew && !report && now < held->ask_at)) {
        return;
    }
    struct held job = *held;
    held->progress.is_new = renew && held->progress.is_new;
    held->report_at = now + PROGRESS_MS;
    held->ask_at = now + ASK_MS;
    (void)pthread_mutex_unlock(&keeper->background.mutex);
    struct cv_error error;
    int64_t asked_at = cv_monotonic_ms();
    int outcome = call_queue(keeper, &job, renew, &error);
    (void)pthread_mutex_lock(&keeper->background.mutex);
    if (held->token != job.token) {
        return; /* the slot has another job meanwhile */
    }
    if (outcome >= 0) {
        keeper->trouble[0] = '\0';
        learn(keeper, held, renew, asked_at, outcome);
    } else {
        held->progress.is_new = true;
        keep_trouble(keeper, &error);
        if (cv_db_is_connected(keeper->db)) {
            held->renew_at = renew ? now + RECONNECT_PAUSE_MS : held->renew_at;
        }
    }
}

static int count_held(const struct cv_keeper *keeper)
{
    int count = 0;
    for (int i = 0; i < keeper->params.slots; i++) {
        count += keeper->held[i].is_held;
    }
    return count;
}

static void serve_all(struct cv_keeper *keeper)
{
    for (int i = 0; i < keeper->params.slots && cv_db_is_connected(keeper->db); i++) {
        serve(keeper, i, cv_monotonic_ms());
    }
    int64_t now = cv_monotonic_ms();
    if (now < keeper->row_at && !keeper->row_is_due) {
        return;
    }
    keeper->row_is_due = false;
    keeper->row_at = now + keeper->params.heartbeat_ms;
    int running = count_held(keeper);
    const char *state = keeper->is_draining ? "draining" : "running";
    (void)pthread_mutex_unlock(&keeper->background.mutex);
    struct cv_error error;
    int outcome = report_row(keeper, state, running, &error);
    (void)pthread_mutex_lock(&keeper->background.mutex);
    if (outcome < 0) { /* jobs do not depend on the row: only people and probes read it */
        keep_trouble(keeper, &error);
        keeper->row_at = cv_monotonic_ms() + ROW_MS;
    } else {
        keeper->trouble[0] = '\0';
    }
    if (outcome == CV_QUEUE_DRAIN && !keeper->told_to_drain) {
        keeper->told_to_drain = true;
        cv_wakeup_signal(keeper->params.news_fd);
    }
}

/* ---- the thread: waiting --------------------------------------------------------------------- */

static int64_t next_due(const struct cv_keeper *keeper)
{
    int64_t at = keeper->row_is_due ? 0 : keeper->row_at;
    for (int i = 0; i < keeper->params.slots; i++) {
        const struct held *held = &keeper->held[i];
        if (!held->is_held || held->lost) {
            continue;
        }
        at = held->renew_at < at ? held->renew_at : at;
        at = held->ask_at < at ? held->ask_at : at;
        at = held->progress.is_new && held->report_at < at ? held->report_at : at;
    }
    return at;
}

static void set_can_keep(struct cv_keeper *keeper, bool can_keep)
{
    if (keeper->can_keep != can_keep) {
        keeper->can_keep = can_keep;
        cv_wakeup_signal(keeper->params.news_fd);
    }
}

/* Whether to give the connection back. A running job needs it. */
static bool is_to_rest(const struct cv_keeper *keeper)
{
    return keeper->is_resting && count_held(keeper) == 0;
}

static void keep(void *argument)
{
    struct cv_keeper *keeper = argument;
    (void)pthread_mutex_lock(&keeper->background.mutex);
    while (!keeper->background.is_stopping) {
        if (is_to_rest(keeper)) {
            cv_db_close(keeper->db);
            keeper->db = NULL;
            set_can_keep(keeper, false);
            (void)cv_background_wait(&keeper->background,
                                     cv_monotonic_ms() + keeper->params.heartbeat_ms);
            continue;
        }
        if (!keeper->db || !cv_db_is_connected(keeper->db)) {
            set_can_keep(keeper, false);
            (void)pthread_mutex_unlock(&keeper->background.mutex);
            struct cv_error error;
            int r = connect_database(keeper, &error);
            (void)pthread_mutex_lock(&keeper->background.mutex);
            if (r < 0) {
                keep_trouble(keeper, &error);
                (void)cv_background_wait(&keeper->background,
                                         cv_monotonic_ms() + RECONNECT_PAUSE_MS);
                continue;
            }
            keeper->trouble[0] = '\0';
            keeper->row_is_due = true;
        }
        serve_all(keeper);
        set_can_keep(keeper, cv_db_is_connected(keeper->db));
        int64_t due = next_due(keeper);
        /* The mutex was released above, so all of this may have changed. */
        if (!is_to_rest(keeper) && due > cv_monotonic_ms()) {
            (void)cv_background_wait(&keeper->background, due);
        }
    }
    (void)pthread_mutex_unlock(&keeper->background.mutex);
    if (keeper->db && cv_db_is_connected(keeper->db)) {
        struct cv_error error;
        int outcome = report_row(keeper, "stopped", 0, &error);
        (void)outcome;
    }
}

/* ---- the loop's side ------------------------------------------------------------------------- */

static void keeper_free(struct cv_keeper *keeper)
{
    cv_db_close(keeper->db);
    cv_cancel_free(keeper->cancel);
    free(keeper->held);
    free(keeper);
}
CV_DEFINE_CLEANUP(struct cv_keeper *, keeper_free)

int cv_keeper_start(const struct cv_keeper_params *params, struct cv_keeper **ret_keeper,
                    struct cv_error *error)
{
    cv_auto(keeper_free) struct cv_keeper *keeper = calloc(1, sizeof(*keeper));
    CV_TRY_MEMORY(keeper, error, "the lease keeper");
    keeper->params = *params;
    keeper->row_is_due = true;
    keeper->held = calloc((size_t)params->slots, sizeof(*keeper->held));
    CV_TRY(cv_cancel_new(&keeper->cancel, error));
    CV_TRY_MEMORY(keeper->held, error, "the lease keeper");
    CV_TRY(cv_background_start(&keeper->background, keep, keeper, error));
    *ret_keeper = cv_take(keeper);
    return 0;
}

void cv_keeper_stop(struct cv_keeper *keeper)
{
    /* If the database does not answer, the thread may wait until its time-outs. */
    cv_background_stop(&keeper->background, keeper->cancel, STOP_MS);
    keeper_free(keeper);
}

/* Schedules a write of the worker's row, which has the number of running jobs. A worker with many
 * short jobs writes it only from time to time. */
static void row_soon(struct cv_keeper *keeper, int64_t now)
{
    int64_t soon = now + ROW_MS;
    keeper->row_at = keeper->row_at < soon ? keeper->row_at : soon;
}

void cv_keeper_hold(struct cv_keeper *keeper, int slot, const struct cv_job *job, int64_t lease_end)
{
    int64_t now = cv_monotonic_ms();
    CV_LOCK(&keeper->background.mutex);
    struct held *held = &keeper->held[slot];
    *held = (struct held){
        .is_held = true,
        .token = job->token,
        .lease_end = lease_end,
        .renew_at = now + keeper->params.heartbeat_ms,
        .report_at = now,
        .ask_at = now + ASK_MS,
    };
    (void)memcpy(held->job_id, job->id, sizeof(held->job_id));
    row_soon(keeper, now);
    cv_background_wake(&keeper->background);
}

void cv_keeper_let_go(struct cv_keeper *keeper, int slot)
{
    CV_LOCK(&keeper->background.mutex);
    keeper->held[slot] = (struct held){.is_held = false};
    row_soon(keeper, cv_monotonic_ms());
    cv_background_wake(&keeper->background);
}

void cv_keeper_progress(struct cv_keeper *keeper, int slot, const struct cv_progress *progress)
{
    CV_LOCK(&keeper->background.mutex);
    keeper->held[slot].progress = *progress;
    cv_background_wake(&keeper->background);
}

void cv_keeper_draining(struct cv_keeper *keeper)
{
    CV_LOCK(&keeper->background.mutex);
    keeper->is_draining = true;
    keeper->row_is_due = true;
    cv_background_wake(&keeper->background);
}

bool cv_keeper_can_keep(struct cv_keeper *keeper)
{
    CV_LOCK(&keeper->background.mutex);
    return keeper->can_keep;
}

void cv_keeper_rest(struct cv_keeper *keeper, bool rest)
{
    CV_LOCK(&keeper->background.mutex);
    if (keeper->is_resting != rest) {
        keeper->is_resting = rest;
        cv_background_wake(&keeper->background);
    }
}

struct cv_keeper_news cv_keeper_read(struct cv_keeper *keeper, int slot)
{
    CV_LOCK(&keeper->background.mutex);
    const struct held *held = &keeper->held[slot];
    struct cv_keeper_news news = {held->lease_end, held->lost, held->cancel};
    return news;
}

void cv_keeper_ask(struct cv_keeper *keeper)
{
    CV_LOCK(&keeper->background.mutex);
    for (int i = 0; i < keeper->params.slots; i++) {
        keeper->held[i].ask_at = 0;
    }
    keeper->row_is_due = true;
    cv_background_wake(&keeper->background);
}

bool cv_keeper_told_to_drain(struct cv_keeper *keeper)
{
    CV_LOCK(&keeper->background.mutex);
    return keeper->told_to_drain;
}

void cv_keeper_trouble(struct cv_keeper *keeper, char text[CV_TROUBLE_SIZE])
{
    CV_LOCK(&keeper->background.mutex);
    (void)memcpy(text, keeper->trouble, CV_TROUBLE_SIZE);
}
