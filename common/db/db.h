/* PostgreSQL through libpq: one connection, parameters as text, rows by column name, transactions,
 * notifications, and one table that says what each SQLSTATE means for a job (sqlstate.c).
 *
 * Waiting is never blind: every wait looks at the connection's cancel object and its time-out. No
 * session state is relied on but LISTEN, so that everything else works behind a transaction-pooling
 * PgBouncer. A connection is used by one thread at a time.
 */
#pragma once

#include "common/base/base.h"

#include <libpq-fe.h>

struct cv_db;

struct cv_db_params {
    const char *conninfo;         /* URL or key=value text; NULL: DATABASE_URL, else PG* */
    const char *application_name; /* shown in pg_stat_activity; NULL: "cortana" */
    struct cv_cancel *cancel;     /* borrowed; an abort ends waits with CV_ERROR_CANCELED */
    int64_t connect_timeout_ms;   /* one try; 0 = 10 s */
    int64_t statement_timeout_ms; /* one statement, kept by the client; 0 = 5 min */
};

/* Connects once; CV_ERROR_CONNECTION when the server is away, CV_ERROR_AUTHENTICATION when it does
 * not let us in, CV_ERROR_CONFIGURATION for an unreadable connection text or an unknown database. No
 * message ever holds a password. */
CV_MUST_CHECK int cv_db_open(const struct cv_db_params *params, struct cv_db **ret_db,
                             struct cv_error *error);
void cv_db_close(struct cv_db *db);
CV_DEFINE_CLEANUP(struct cv_db *, cv_db_close)

/* Connects again if the connection is broken; tries with growing, jittered pauses until it
 * succeeds, `timeout_ms` have passed (CV_ERROR_CONNECTION) or the cancel object aborts. LISTENs are
 * repeated. An authentication failure is not tried again. */
CV_MUST_CHECK int cv_db_reconnect(struct cv_db *db, int64_t timeout_ms, struct cv_error *error);

/* False after a lost connection, until cv_db_reconnect. */
bool cv_db_is_connected(const struct cv_db *db);

/* ---- statements ------------------------------------------------------------------------------ */

/* Rows of one statement. */
struct cv_db_result;
void cv_db_result_free(struct cv_db_result *result);
CV_DEFINE_CLEANUP(struct cv_db_result *, cv_db_result_free)

/* Runs one statement with `count` text parameters ($1…; NULL is SQL NULL). `ret_result` may be NULL
 * when no rows are wanted. After a time-out (CV_ERROR_TIMEOUT) or an abort the server was asked to
 * stop the statement; if it did not answer either, the connection is closed. A lost connection is
 * CV_ERROR_CONNECTION, and every statement fails so until cv_db_reconnect. */
CV_MUST_CHECK int cv_db_query(struct cv_db *db, const char *sql, size_t count,
                              const char *const *parameters, struct cv_db_result **ret_result,
                              struct cv_error *error);

/* cv_db_run(db, &result, error, "SELECT …$1…", text, …): cv_db_query with the parameters in place.
 */
#define cv_db_run(db, ret_result, error, sql, ...)                                                \
    cv_db_query(db, sql, sizeof((const char *const[]){NULL, ##__VA_ARGS__}) / sizeof(char *) - 1, \
                (const char *const[]){NULL, ##__VA_ARGS__} + 1, ret_result, error)

/* cv_db_query for a statement (a literal text, with the same parameters' types each time) that a
 * connection runs again and again, and whose plan does not depend on its parameters: a call of a
 * function, say. Straight to a server, and outside of a transaction, its text is parsed and planned
 * once a connection and not with every call; behind a pooler, whose sessions are not ours to keep
 * anything in, and within a transaction, it is cv_db_query. A migration that makes the kept plan
 * useless is not seen by the caller. */
CV_MUST_CHECK int cv_db_repeat(struct cv_db *db, const char *sql, size_t count,
                               const char *const *parameters, struct cv_db_result **ret_result,
                               struct cv_error *error);

/* Several statements in one text, no parameters, no rows (migrations). */
CV_MUST_CHECK int cv_db_script(struct cv_db *db, const char *sql, struct cv_error *error);

int cv_db_rows(const struct cv_db_result *result);

/* Value of a column by name; NULL for SQL NULL; borrowed from the result. An unknown column is a
 * defect of the caller and asserts. */
const char *cv_db_text(const struct cv_db_result *result, int row, const char *column);

/* Numbers of a column; `fallback` for SQL NULL. */
int64_t cv_db_int(const struct cv_db_result *result, int row, const char *column, int64_t fallback);
double cv_db_double(const struct cv_db_result *result, int row, const char *column,
                    double fallback);
bool cv_db_bool(const struct cv_db_result *result, int row, const char *column);

/* ---- transactions ---------------------------------------------------------------------------- */

/* Between its statements a transaction may stand idle as long as one statement may take
 * (statement_timeout_ms); then the server ends it, so that a client behind a dead network holds no
 * lock. A commit that fails with CV_ERROR_CONNECTION may have happened or not. A commit after a failed
 * statement is CV_ERROR_INTERNAL: PostgreSQL makes it a rollback without a word. */
CV_MUST_CHECK int cv_db_begin(struct cv_db *db, struct cv_error *error);
CV_MUST_CHECK int cv_db_commit(struct cv_db *db, struct cv_error *error);
/* True between begin and commit or rollback, also after a statement in between has failed. */
bool cv_db_in_transaction(const struct cv_db *db);
/* Harmless when no transaction is open or the connection is gone. */
void cv_db_rollback(struct cv_db *db);

/* ---- notifications --------------------------------------------------------------------------- */

/* LISTEN; remembered and repeated after a reconnect. `channel` is an identifier, quoted here. */
CV_MUST_CHECK int cv_db_listen(struct cv_db *db, const char *channel, struct cv_error *error);

/* The socket to poll for input, -1 when not connected. */
int cv_db_fd(const struct cv_db *db);

/* Any statement may read notifications along with its own answer: call this until it says 0 before
 * waiting on cv_db_fd. What was sent while the connection was away is lost.
 *
 * Takes the next notification that has arrived: 1 and *ret_channel, *ret_payload (free() both), or
 * 0 when there is none. Reads what lies in the socket without waiting. */
CV_MUST_CHECK int cv_db_notification(struct cv_db *db, char **ret_channel, char **ret_payload,
                                     struct cv_error *error);

/* ---- errors ---------------------------------------------------------------------------------- */

/* SQLSTATE of the last failed statement, "" when there was none or it never reached the server. */
const char *cv_db_sqlstate(const struct cv_db *db);

/* The error type that a SQLSTATE (5 characters) stands for; see the table in sqlstate.c. */
enum cv_error_type cv_db_error_type(const char *sqlstate);
