/* What the long-running programs that are no workers share (scanner, scheduler, api-gateway): signals,
 * a listener for probes, a row among the workers, and a database and a schema that may have to be
 * waited for. A worker's supervisor does these things itself, because it waits for processes too.
 *
 * One daemon a process. The functions belong to the thread that opened it, but for
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
        *cancel;            /* raised by SIGTERM, SIGINT, and by a person who drains this worker */
    struct cv_probe *probe; /* NULL: nobody listens */
    char host[CV_WORKER_HOST_SIZE], id[CV_WORKER_ID_SIZE];
    int64_t report_at;                  /* monotonic; 0: no row was written yet */
    char reason[CV_SCHEMA_REASON_SIZE]; /* why it is not ready, as it was logged last */
};

struct cv_daemon_params {
    const char *name;   /* of the program; static */
    const char *listen; /* "ADDRESS:PORT"; "" or NULL: nowhere */
    int64_t stall_ms;   /* /healthz fails after so long without a wait */
    bool shows_fleet;   /* /metrics shows the fleet, too */
};

/* Catches SIGTERM and SIGINT, and listens. After cv_daemon_deinit signals end the process in the
 * usual way again. */
CV_MUST_CHECK int cv_daemon_open(const struct cv_daemon_params *params, struct cv_daemon *daemon,
                                 struct cv_error *error);
void cv_daemon_deinit(struct cv_daemon *daemon);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_daemon, cv_daemon_deinit)

/* Logs the failure that ends the program; returns its exit status. */
int cv_daemon_exit_code(const char *name, const struct cv_error *error);

bool cv_daemon_is_stopping(const struct cv_daemon *daemon);

struct cv_daemon_db_params {
    const char *application_name; /* NULL: the daemon's name */
    const char *channel;          /* whose notifications wake it; NULL: none */
    int64_t statement_timeout_ms; /* 0: none */
};

/* Connects. Where a pooler knows no LISTEN, the daemon polls only, and says so. */
CV_MUST_CHECK int cv_daemon_connect(const struct cv_daemon *daemon,
                                    const struct cv_daemon_db_params *params, struct cv_db **ret_db,
                                    struct cv_error *error);

/* Waits until `until` (monotonic ms), a notification (all that have come are taken), a stop, or the
 * loss of the connection. `db` may be NULL. */
void cv_daemon_wait(struct cv_daemon *daemon, struct cv_db *db, int64_t until);

/* Ready for work when `reason` is NULL, else not, and why: in /readyz, and in the log when it changes. */
void cv_daemon_set_reason(struct cv_daemon *daemon, const char *reason);

/* Looks once whether this program may work on the schema: 0, or CV_QUEUE_SCHEMA, and what is
 * missing is the reason from now on. */
CV_MUST_CHECK int cv_daemon_check_schema(struct cv_daemon *daemon, struct cv_db *db,
                                         struct cv_error *error);

/* Waits for such a schema; 0 at a stop, too. */
CV_MUST_CHECK int cv_daemon_wait_for_schema(struct cv_daemon *daemon, struct cv_db *db,
                                            struct cv_error *error);

/* After a failure: a pause, and a new connection if the old one is lost, however long that takes.
 * Negative when no waiting helps. */
CV_MUST_CHECK int cv_daemon_recover(struct cv_daemon *daemon, struct cv_db *db,
                                    const struct cv_error *failure, struct cv_error *error);

/* Writes the row among the workers, if `interval_ms` have passed since; hears whether somebody wants the
 * worker to go. */
CV_MUST_CHECK int cv_daemon_report(struct cv_daemon *daemon, struct cv_db *db, const char *job_type,
                                   int64_t interval_ms, struct cv_error *error);

/* Marks the row as stopped, by a connection of its own: the others end their waits at a stop. */
void cv_daemon_leave(const struct cv_daemon *daemon, const char *job_type);
