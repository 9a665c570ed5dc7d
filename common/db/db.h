/* PostgreSQL through libpq: one connection, parameters as text, rows by column name, transactions,
 * notifications, and one table that maps each SQLSTATE to a kind of error (sqlstate.c).
 *
 * Every wait has a time limit, and ends earlier when the connection's cancel object aborts. Only
 * LISTEN needs a session of its own; everything else works behind PgBouncer in transaction mode. A
 * connection is used by one thread at a time. */
#pragma once

#include "common/base/base.h"

#include <libpq-fe.h>

struct cv_db;

struct cv_db_params {
    const char *conninfo;         /* URL or key=value pairs; NULL: DATABASE_URL, else PG* */
    const char *application_name; /* shown in pg_stat_activity; NULL: "cortana" */
    struct cv_cancel *cancel;     /* borrowed; an abort ends waits with CV_ERROR_CANCELED */
    int64_t connect_timeout_ms;   /* one attempt; 0 = 10 s */
    int64_t statement_timeout_ms; /* one statement, measured by the client; 0 = 5 min */
    int64_t patience_ms;          /* how long to try to connect at first; 0: once */
};

/* Connects: once, or with retries as in cv_db_reconnect for `patience_ms`. CV_ERROR_CONNECTION
 * when the server cannot be reached, CV_ERROR_AUTHENTICATION when it refuses the login,
 * CV_ERROR_CONFIGURATION for a connection text that cannot be parsed or an unknown database. No
 * message contains a password. */
CV_MUST_CHECK int cv_db_open(const struct cv_db_params *params, struct cv_db **ret_db,
                             struct cv_error *error);
void cv_db_close(struct cv_db *db);
CV_DEFINE_CLEANUP(struct cv_db *, cv_db_close)

/* Connects again if the connection is broken, and repeats its LISTENs. Tries with growing,
 * jittered pauses until it succeeds, `timeout_ms` have passed (CV_ERROR_CONNECTION) or the cancel
 * object aborts (CV_ERROR_CANCELED). Does not retry after an error that waiting cannot fix, such
 * as a wrong password. */
CV_MUST_CHECK int cv_db_reconnect(struct cv_db *db, int64_t timeout_ms, struct cv_error *error);

/* Closes the connection and opens another, as cv_db_reconnect does: settings made with ALTER
 * DATABASE and ALTER ROLE apply only to connections that begin later. */
CV_MUST_CHECK int cv_db_renew(struct cv_db *db, int64_t timeout_ms, struct cv_error *error);

/* The connection's parameters, including its password, as "PGHOST=…" for a program of PostgreSQL,
 * ended by NULL. cv_db_environment_free() wipes them. */
CV_MUST_CHECK int cv_db_environment(const struct cv_db *db, char ***ret_environment,
                                    struct cv_error *error);
void cv_db_environment_free(char **environment);
CV_DEFINE_CLEANUP(char **, cv_db_environment_free)

/* The TCP port of the server; 0 for a server behind a Unix socket. */
int cv_db_port(const struct cv_db *db);

/* False after a lost connection, until cv_db_reconnect. */
bool cv_db_is_connected(const struct cv_db *db);

/* The same, after reading what the server has sent meanwhile, without waiting: so a connection that
 * the server has ended is noticed before it is used. For connections between two statements. */
bool cv_db_is_open(struct cv_db *db);

/* Sets statement_timeout_ms for the statements that follow. */
void cv_db_set_statement_timeout(struct cv_db *db, int64_t statement_timeout_ms);

/* ---- statements ------------------------------------------------------------------------------ */

/* Rows of one statement. */
struct cv_db_result;
void cv_db_result_free(struct cv_db_result *result);
CV_DEFINE_CLEANUP(struct cv_db_result *, cv_db_result_free)

/* One statement and its parameters as text ($1…; NULL is SQL NULL). Borrows everything. */
struct cv_db_statement {
    const char *sql;
    size_t count; /* of parameters */
    const char *const *parameters;
};

/* A pointer to a struct cv_db_statement made in place: CV_DB_STATEMENT("SELECT …$1…", text, …). */
#define CV_DB_STATEMENT(sql, ...)                                                     \
    (&(const struct cv_db_statement){                                                 \
        sql, sizeof((const char *const[]){NULL, ##__VA_ARGS__}) / sizeof(char *) - 1, \
        (const char *const[]){NULL, ##__VA_ARGS__} + 1})

/* A number as the text of a parameter: cv_db_number(7).text, which is valid until the end of the statement that calls it. */
struct cv_db_number {
    char text[24];
};
struct cv_db_number cv_db_number(int64_t value);

/* Appends `value`, which has no control characters, as an element to the text of an array ("{…"). */
void cv_db_array_append(struct cv_buffer *array, const char *value);

/* Runs one statement. `ret_result` may be NULL when the rows do not matter. After a time-out
 * (CV_ERROR_TIMEOUT) or an abort (CV_ERROR_CANCELED) the server has been asked to stop the statement;
 * if it did not answer that either, the connection is closed. After a lost connection
 * (CV_ERROR_CONNECTION) every statement fails until cv_db_reconnect. */
CV_MUST_CHECK int cv_db_query(struct cv_db *db, const struct cv_db_statement *statement,
                              struct cv_db_result **ret_result, struct cv_error *error);

/* cv_db_run(db, &result, error, "SELECT …$1…", text, …): cv_db_query with the parameters in place. */
#define cv_db_run(db, ret_result, error, sql, ...) \
    cv_db_query(db, CV_DB_STATEMENT(sql, ##__VA_ARGS__), ret_result, error)

/* Runs `first` and then `statement`, whose rows become *ret_result, in one transaction and one
 * round trip. If either fails, the transaction is rolled back. Must not be called within a
 * transaction. */
CV_MUST_CHECK int cv_db_query_after(struct cv_db *db, const struct cv_db_statement *first,
                                    const struct cv_db_statement *statement,
                                    struct cv_db_result **ret_result, struct cv_error *error);

/* cv_db_query for a statement that the connection runs often: the server parses and plans it once
 * per connection. The text and the types of its parameters must be the same each time, and a good
 * plan must not depend on their values (calls of functions, for example). Within a transaction, and
 * behind a pooler, whose sessions are shared, it does the same as cv_db_query. When a migration
 * invalidates the prepared statement, it is run again as a new one. */
CV_MUST_CHECK int cv_db_query_prepared(struct cv_db *db, const struct cv_db_statement *statement,
                                       struct cv_db_result **ret_result, struct cv_error *error);

/* Runs several statements in one text, without parameters or rows (migrations, for example). Outside
 * of a transaction they are one transaction. */
CV_MUST_CHECK int cv_db_script(struct cv_db *db, const char *sql, struct cv_error *error);

/* The number of rows. */
int cv_db_rows(const struct cv_db_result *result);

/* The value of a column by name, borrowed from the result; NULL for SQL NULL. A row or column that
 * does not exist is a bug of the caller and fails an assertion. */
const char *cv_db_text(const struct cv_db_result *result, int row, const char *column);

/* The same as a number or a truth value; `fallback`, or false, for SQL NULL. */
int64_t cv_db_int(const struct cv_db_result *result, int row, const char *column, int64_t fallback);
double cv_db_double(const struct cv_db_result *result, int row, const char *column,
                    double fallback);
bool cv_db_bool(const struct cv_db_result *result, int row, const char *column);

/* ---- transactions ---------------------------------------------------------------------------- */

/* A transaction may be idle between its statements for statement_timeout_ms; then the server ends it,
 * so that a client that has lost its network does not keep its locks. After a commit that fails with
 * CV_ERROR_CONNECTION, the transaction may or may not have been committed. A commit after a failed
 * statement is CV_ERROR_INTERNAL, because PostgreSQL rolls the transaction back without an error. */
CV_MUST_CHECK int cv_db_begin(struct cv_db *db, struct cv_error *error);
CV_MUST_CHECK int cv_db_commit(struct cv_db *db, struct cv_error *error);
/* True between begin and commit or rollback, also after a statement in between has failed. */
bool cv_db_in_transaction(const struct cv_db *db);
/* Rolls back. Does nothing when no transaction is open or the connection is lost. */
void cv_db_rollback(struct cv_db *db);
CV_DEFINE_CLEANUP(struct cv_db *, cv_db_rollback)

/* ---- notifications --------------------------------------------------------------------------- */

/* Runs LISTEN, and repeats it after a reconnect. `channel` is an identifier, quoted here. */
CV_MUST_CHECK int cv_db_listen(struct cv_db *db, const char *channel, struct cv_error *error);

/* The socket to poll for input; -1 when not connected. */
int cv_db_fd(const struct cv_db *db);

/* Takes the next notification that has arrived: 1 and *ret_channel, *ret_payload (free() both), or 0
 * when there is none. Reads from the socket without waiting. Every statement may have read
 * notifications together with its answer, so call this until it returns 0 before waiting on cv_db_fd.
 * Notifications sent while the connection was lost never arrive. */
CV_MUST_CHECK int cv_db_notification(struct cv_db *db, char **ret_channel, char **ret_payload,
                                     struct cv_error *error);

/* ---- errors ---------------------------------------------------------------------------------- */

/* The SQLSTATE of the last statement; "" when it succeeded or never reached the server. */
const char *cv_db_sqlstate(const struct cv_db *db);

/* The column that the last error names (RAISE … USING COLUMN: the parameter that is wrong); "" when
 * it names none. */
const char *cv_db_error_column(const struct cv_db *db);

/* The error type for a SQLSTATE (5 characters), from the table in sqlstate.c. */
enum cv_error_type cv_db_error_type(const char *sqlstate);
