#include "workers/scheduler/scheduler.h"

#include <poll.h>
#include <string.h>

enum {
    RECONNECT_MS = 30 * 1000, /* at one go, between looks at the cancel object */
    WAIT_LEAST_MS = 20,       /* between two rounds, however much is due */
    AFTER_FAILURE_MS = 1000,
    SCHEMA_MS = 30 * 1000, /* between two looks at the schema */
};

int scheduler_open(struct scheduler_part *part, struct cv_error *error)
{
    const struct cv_db_params params = {
        .application_name = part->name,
        .cancel = part->scheduler->cancel,
        .statement_timeout_ms = part->statement_ms,
    };
    int result = cv_db_open(&params, &part->db, error);
    if (result != 0) {
        return result;
    }
    struct cv_error reason;
    if (part->channel && cv_db_listen(part->db, part->channel, &reason) != 0) {
        cv_log(CV_LOG_WARN, "polling only: %s", reason.message); /* a pooler that knows no LISTEN */
    }
    return 0;
}

static bool is_asked_to_stop(const struct scheduler_part *part)
{
    return cv_cancel_level(part->scheduler->cancel) != CV_CANCEL_NONE;
}

/* Takes all that has come: one look answers them all. */
static bool was_notified(struct scheduler_part *part)
{
    bool any = false;
    for (;;) {
        cv_auto_free char *channel = NULL;
        cv_auto_free char *payload = NULL;
        struct cv_error error;
        if (!cv_db_is_connected(part->db) ||
            cv_db_notification(part->db, &channel, &payload, &error) != 1) {
            return any;
        }
        any = true;
    }
}

/* Until something is due, a notification, or a stop. */
static void wait_for(struct scheduler_part *part, int64_t wait_ms)
{
    int64_t least = cv_monotonic_ms() + WAIT_LEAST_MS;
    int64_t most = part->scheduler->poll_ms;
    int64_t until = cv_monotonic_ms() + (wait_ms < most ? wait_ms : most);
    until = until > least ? until : least;
    while (!is_asked_to_stop(part)) {
        int64_t left = until - cv_monotonic_ms();
        if (left <= 0 || was_notified(part)) {
            return;
        }
        struct pollfd polls[2] = {
            {.fd = cv_cancel_fd(part->scheduler->cancel), .events = POLLIN},
            {.fd = cv_db_fd(part->db), .events = POLLIN},
        };
        (void)poll(polls, cv_db_is_connected(part->db) ? 2 : 1, (int)left);
        if (!cv_db_is_connected(part->db)) {
            return; /* the round finds that out, too, and waits */
        }
    }
}

/* The database may go away and come back; nothing of ours is lost by that. */
static int recover(struct scheduler_part *part, const struct cv_error *failure,
                   struct cv_error *error)
{
    *error = *failure;
    if (failure->verdict == CV_VERDICT_STOP) {
        return -1;
    }
    cv_log_error(failure, part->name);
    cv_probe_set_reason(part->probe, failure->message);
    wait_for(part, AFTER_FAILURE_MS);
    while (!cv_db_is_connected(part->db) && !is_asked_to_stop(part)) {
        cv_probe_beat(part->probe);
        int result = cv_db_reconnect(part->db, RECONNECT_MS, error);
        if (result < 0 && error->verdict == CV_VERDICT_STOP) {
            return result;
        }
    }
    return 0;
}

/* Waits for a schema that this program may work on; looks now and then whether it still is. */
static int wait_for_schema(struct scheduler_part *part, struct cv_error *error)
{
    char said[CV_SCHEMA_REASON_SIZE] = "";
    while (cv_monotonic_ms() >= part->schema_at && !is_asked_to_stop(part)) {
        char reason[CV_SCHEMA_REASON_SIZE] = "";
        int result = cv_queue_check_schema(part->db, reason, error);
        if (result < 0) {
            return result;
        }
        if (result == 0) {
            part->schema_at = cv_monotonic_ms() + SCHEMA_MS;
            return 0;
        }
        if (strcmp(said, reason) != 0) {
            cv_log(CV_LOG_WARN, "%s: %s", part->name, reason);
            (void)memcpy(said, reason, sizeof(said));
        }
        cv_probe_set_reason(part->probe, reason);
        cv_probe_beat(part->probe);
        wait_for(part, AFTER_FAILURE_MS);
    }
    return 0;
}

int scheduler_run(struct scheduler_part *part, struct cv_error *error)
{
    int result = 0;
    while (result == 0 && !is_asked_to_stop(part)) {
        struct cv_error failure;
        int64_t wait_ms = 0;
        cv_probe_beat(part->probe);
        int done = wait_for_schema(part, &failure);
        done = done ? done : part->round(part, &wait_ms, &failure);
        if (done == 0) {
            cv_probe_set_reason(part->probe, NULL);
            wait_for(part, wait_ms);
        } else if (!is_asked_to_stop(part)) {
            result = recover(part, &failure, error);
        }
    }
    return result;
}
