/* Common parts of the long-running programs without a stage (scanner, scheduler, api-gateway):
 * signals, a listener for probes, a row in the list of workers, and waiting for database and schema.
 * A worker's supervisor does this itself, because it also waits for processes.
 *
 * A process has one daemon. The functions are called by the thread that opened it, except
 * cv_daemon_is_stopping, and cv_daemon_wait with a copy of the daemon whose probe is NULL.
 */
#pragma once

#include "common/base/base.h"
#include "common/db/db.h"
#include "common/probe/probe.h"
#include "common/queue/queue.h"

struct cv_daemon {
    const char *name;
    struct cv_cancel
        *cancel;            /* raised by SIGTERM, SIGINT, and when an operator drains this worker */
    struct cv_probe *probe; /* NULL: nobody listens */
    char host[CV_WORKER_HOST_SIZE], id[CV_WORKER_ID_SIZE];
    int64_t report_at;                  /* monotonic; 0: no row was written yet */
    char reason[CV_SCHEMA_REASON_SIZE]; /* why it is not ready, as it was logged last */
};

struct cv_daemon_params {
    const char *name;   /* name of the program; static */
    const char *listen; /* "ADDRESS:PORT"; "" or NULL: no listener */
    int64_t stall_ms;   /* /healthz fails if there was no wait for this long */
    bool shows_fleet;   /* /metrics includes the fleet */
};

/* Handles SIGTERM and SIGINT, and starts the listener. After cv_daemon_deinit these signals end
 * the process as usual. */
CV_MUST_CHECK int cv_daemon_open(const struct cv_daemon_params *params, struct cv_daemon *daemon,
                                 struct cv_error *error);
void cv_daemon_deinit(struct cv_daemon *daemon);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_daemon, cv_daemon_deinit)

/* Logs the failure that ends the program; returns its exit status. */
int cv_daemon_exit_code(const char *name, const struct cv_error *error);

bool cv_daemon_is_stopping(const struct cv_daemon *daemon);

struct cv_daemon_db_params {
    const char *application_name; /* NULL: the daemon's name */
    const char *channel;          /* channel whose notifications wake it; NULL: none */
    int64_t statement_timeout_ms; /* 0: none */
};

/* Connects. Behind a pooler that does not support LISTEN, the daemon only polls, and logs that. */
CV_MUST_CHECK int cv_daemon_connect(const struct cv_daemon *daemon,
                                    const struct cv_daemon_db_params *params, struct cv_db **ret_db,
                                    struct cv_error *error);

/* Calls open(opaque), which connects, until it succeeds: for a program that waits for a database that is
 * away or has no free connections. Fails where waiting cannot help. Also returns 0 when the daemon is
 * to stop. */
CV_MUST_CHECK int cv_daemon_wait_for_database(struct cv_daemon *daemon,
                                              int (*open)(void *opaque, struct cv_error *error),
                                              void *opaque, struct cv_error *error);

/* Waits until `until` (monotonic ms), a notification (all that have arrived are consumed), a
 * request to stop, or the loss of the connection. `db` may be NULL. */
void cv_daemon_wait(struct cv_daemon *daemon, struct cv_db *db, int64_t until);

/* Sets the state of /readyz: ready when `reason` is NULL, else not ready with this reason, which
 * is logged when it changes. */
void cv_daemon_set_reason(struct cv_daemon *daemon, const char *reason);

/* Checks once whether this program fits the database's schema: 0, or CV_QUEUE_SCHEMA. In the
 * latter case /readyz says what is missing. */
CV_MUST_CHECK int cv_daemon_check_schema(struct cv_daemon *daemon, struct cv_db *db,
                                         struct cv_error *error);

/* Waits until the program fits the schema. Also returns 0 when the daemon is to stop. */
CV_MUST_CHECK int cv_daemon_wait_for_schema(struct cv_daemon *daemon, struct cv_db *db,
                                            struct cv_error *error);

/* Recovers from `failure`: pauses, and reconnects if the connection is lost, however long that
 * takes. Negative when the failure cannot be cured by waiting. */
CV_MUST_CHECK int cv_daemon_recover(struct cv_daemon *daemon, struct cv_db *db,
                                    const struct cv_error *failure, struct cv_error *error);

/* Writes the daemon's row in the list of workers, if `interval_ms` have passed since the last
 * time. If an operator drains this worker, requests the stop. */
CV_MUST_CHECK int cv_daemon_report(struct cv_daemon *daemon, struct cv_db *db, const char *job_type,
                                   int64_t interval_ms, struct cv_error *error);

/* Marks the row as stopped. Uses its own connection, because the waits of other connections end at
 * a stop. */
void cv_daemon_leave(const struct cv_daemon *daemon, const char *job_type);
