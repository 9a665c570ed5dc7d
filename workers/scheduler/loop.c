#include "workers/scheduler/scheduler.h"

enum {
    WAIT_LEAST_MS = 20,    /* between two rounds, however much is due */
    SCHEMA_MS = 30 * 1000, /* between two looks at the schema */
};

int scheduler_open(struct scheduler_part *part, struct cv_error *error)
{
    const struct cv_db_params params = {
        .application_name = part->name,
        .cancel = part->daemon->cancel,
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

static void wait_for(struct scheduler_part *part, int64_t wait_ms)
{
    int64_t wait = wait_ms < part->poll_ms ? wait_ms : part->poll_ms;
    wait = wait > WAIT_LEAST_MS ? wait : WAIT_LEAST_MS;
    cv_daemon_wait(part->daemon, part->db, cv_monotonic_ms() + wait);
}

/* Looks now and then whether the schema still fits. */
static int watch_schema(struct scheduler_part *part, struct cv_error *error)
{
    if (cv_monotonic_ms() < part->schema_at) {
        return 0;
    }
    int result = cv_daemon_wait_for_schema(part->daemon, part->db, error);
    if (result == 0) {
        part->schema_at = cv_monotonic_ms() + SCHEMA_MS;
    }
    return result;
}

int scheduler_run(struct scheduler_part *part, struct cv_error *error)
{
    int result = 0;
    while (result == 0 && !cv_daemon_is_stopping(part->daemon)) {
        struct cv_error failure;
        int64_t wait_ms = 0;
        int done = watch_schema(part, &failure);
        done = done ? done : part->round(part, &wait_ms, &failure);
        if (done == 0) {
            cv_probe_set_reason(part->daemon->probe, NULL);
            wait_for(part, wait_ms);
        } else {
            result = cv_daemon_recover(part->daemon, part->db, &failure, error);
        }
    }
    return result;
}
