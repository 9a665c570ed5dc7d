#include "workers/scheduler/scheduler.h"

enum {
    WAIT_LEAST_MS = 20,    /* between two rounds, even if much is due */
    SCHEMA_MS = 30 * 1000, /* between two checks of the schema */
};

int scheduler_open(struct scheduler_part *part, struct cv_error *error)
{
    const struct cv_daemon_db_params params = {part->name, part->channel, part->statement_ms};
    return cv_daemon_connect(part->daemon, &params, &part->db, error);
}

static void wait_for(struct scheduler_part *part, int64_t wait_ms)
{
    int64_t wait = wait_ms < part->poll_ms ? wait_ms : part->poll_ms;
    wait = wait > WAIT_LEAST_MS ? wait : WAIT_LEAST_MS;
    cv_daemon_wait(part->daemon, part->db, cv_monotonic_ms() + wait);
}

/* Checks from time to time whether the schema still fits. */
static int watch_schema(struct scheduler_part *part, struct cv_error *error)
{
    if (cv_monotonic_ms() < part->schema_at) {
        return 0;
    }
    CV_TRY(cv_daemon_wait_for_schema(part->daemon, part->db, error));
    part->schema_at = cv_monotonic_ms() + SCHEMA_MS;
    return 0;
}

int scheduler_run(struct scheduler_part *part, struct cv_error *error)
{
    while (!cv_daemon_is_stopping(part->daemon)) {
        struct cv_error failure;
        int64_t wait_ms = 0;
        int done = watch_schema(part, &failure);
        done = done ? done : part->round(part, &wait_ms, &failure);
        if (done == 0) {
            cv_daemon_set_reason(part->daemon, NULL);
            wait_for(part, wait_ms);
        } else {
            CV_TRY(cv_daemon_recover(part->daemon, part->db, &failure, error));
        }
    }
    return 0;
}
