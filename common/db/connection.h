/* What the files of common/db share: the connection and the one way to wait for it. */
#pragma once

#include "common/db/db.h"
#include "common/db/statement.h"

enum { CV_SQLSTATE_SIZE = 6, CV_COLUMN_SIZE = 64 };

struct cv_db {
    PGconn *connection; /* NULL while not connected */
    struct cv_cancel *cancel;
    char *conninfo;
    bool
        is_of_environment; /* the conninfo is read again from the environment for each connection */
    char *application_name;
    int64_t connect_timeout_ms;
    int64_t statement_timeout_ms;
    char sqlstate[CV_SQLSTATE_SIZE];
    char column[CV_COLUMN_SIZE]; /* that the last error names */
    char **channels;             /* names of the LISTENs */
    size_t channel_count;
    struct cv_db_prepared prepared;
};

/* How long a wait may take, and what ends it early. */
struct cv_db_wait {
    int64_t deadline_ms;      /* on cv_monotonic_ms */
    struct cv_cancel *cancel; /* NULL: nothing cancels the wait */
};

enum cv_db_wait_outcome {
    CV_DB_READY = 0,
    CV_DB_TIMED_OUT = 1, /* the deadline has passed */
    CV_DB_ABORTED = 2,   /* the cancel object has aborted */
};

/* Waits until `fd` shows one of `events` (as in poll); fd -1: only pauses until the deadline. Returns
 * an enum cv_db_wait_outcome or -1. */
CV_MUST_CHECK int cv_db_wait(int fd, short events, const struct cv_db_wait *wait,
                             struct cv_error *error);

/* Closes the connection and forgets what its session held; harmless when there is none. */
void cv_db_drop(struct cv_db *db);

/* Drops a connection that libpq reports as broken, or that is not open, and raises
 * CV_ERROR_CONNECTION with libpq's reason. */
CV_MUST_CHECK int cv_db_fail_connection(struct cv_db *db, struct cv_error *error);
