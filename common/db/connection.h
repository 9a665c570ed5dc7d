/* What the files of common/db share: the connection and the one way to wait for it. */
#pragma once

#include "common/db/db.h"

enum {
    CV_SQLSTATE_SIZE = 6,
    /* Statements that one connection keeps; more than any of our programs repeats. */
    CV_DB_REPEATED_MOST = 32,
};

/* Whether the session behind the connection is ours alone. */
enum cv_db_way { CV_DB_WAY_UNKNOWN, CV_DB_DIRECT, CV_DB_POOLED };

struct cv_db {
    PGconn *connection; /* NULL while not connected */
    struct cv_cancel *cancel;
    char *conninfo;
    char *application_name;
    int64_t connect_timeout_ms;
    int64_t statement_timeout_ms;
    char sqlstate[CV_SQLSTATE_SIZE];
    char **channels;
    size_t channel_count;
    enum cv_db_way way;
    char *repeated[CV_DB_REPEATED_MOST]; /* texts, prepared as cv_<index> */
    size_t repeated_count;
};

enum cv_db_kind {
    CV_DB_SCRIPT,    /* several statements, no parameters */
    CV_DB_STATEMENT, /* one, parsed and run */
    CV_DB_PREPARE,   /* one, kept under `name` */
    CV_DB_PREPARED,  /* the one kept under `name`, run */
};

struct cv_db_request {
    enum cv_db_kind kind;
    const char *sql;
    const char *name;
    size_t count; /* of parameters */
    const char *const *parameters;
};

/* How a wait is bounded. */
struct cv_db_wait {
    int64_t deadline_ms;      /* on cv_monotonic_ms */
    struct cv_cancel *cancel; /* NULL: not cancelled */
};

/* Waits until `fd` (-1: nothing, a pause) shows one of `events`: 0. Named outcomes: the deadline
 * has passed, the cancel object has aborted. */
enum cv_db_wait_outcome { CV_DB_READY = 0, CV_DB_TIMED_OUT = 1, CV_DB_ABORTED = 2 };
CV_MUST_CHECK int cv_db_wait(int fd, short events, const struct cv_db_wait *wait,
                             struct cv_error *error);

/* Connects once, LISTENs again. The caller has closed what was there. */
CV_MUST_CHECK int cv_db_connect(struct cv_db *db, int64_t timeout_ms, struct cv_error *error);

/* Closes a connection that cannot be used any more. */
void cv_db_drop(struct cv_db *db);

/* Raises what the server, or libpq, says about a statement that failed. */
CV_MUST_CHECK int cv_db_fail_result(struct cv_db *db, const PGresult *result,
                                    struct cv_error *error);

/* Sends a request and waits for all of its results; *ret_result is the last one. `wait` NULL: the
 * connection's own bounds. */
CV_MUST_CHECK int cv_db_execute(struct cv_db *db, const struct cv_db_request *request,
                                const struct cv_db_wait *wait, PGresult **ret_result,
                                struct cv_error *error);

/* Forgets what the session has prepared: it is gone, or is of no use any more. */
void cv_db_forget_repeated(struct cv_db *db);

/* The rows of an answer as cv_db_query gives them. */
CV_MUST_CHECK int cv_db_take_rows(PGresult **rows, struct cv_db_result **ret_result,
                                  struct cv_error *error);

/* LISTEN without remembering the channel. */
CV_MUST_CHECK int cv_db_send_listen(struct cv_db *db, const char *channel, struct cv_error *error);

CV_DEFINE_CLEANUP(PGconn *, PQfinish)
CV_DEFINE_CLEANUP(PGresult *, PQclear)
