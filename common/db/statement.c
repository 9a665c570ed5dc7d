#include "common/db/connection.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

enum {
    /* How long a statement that was asked to stop may take to do so, before its connection is
     * given up. */
    STOP_GRACE_MS = 2 * 1000,
    ROLLBACK_TIMEOUT_MS = 5 * 1000,
};

CV_DEFINE_CLEANUP(PGcancel *, PQfreeCancel)

static int fail_connection(struct cv_db *db, struct cv_error *error)
{
    char message[sizeof(error->message)];
    (void)snprintf(message, sizeof(message), "%s",
                   db->connection ? PQerrorMessage(db->connection) : "not connected");
    cv_redact(message);
    cv_db_drop(db);
    return cv_fail(error, CV_ERROR_CONNECTION, "the connection to the database is lost: %s",
                   message);
}

int cv_db_fail_result(struct cv_db *db, const PGresult *result, struct cv_error *error)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (!sqlstate) { /* libpq's own words: the server has not answered */
        return fail_connection(db, error);
    }
    (void)snprintf(db->sqlstate, sizeof(db->sqlstate), "%s", sqlstate);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
    return cv_fail(error, cv_db_error_type(sqlstate), "%s%s%s", primary ? primary : "SQL error",
                   detail ? ": " : "", detail ? detail : "");
}

static void *run_cancel(void *opaque)
{
    cv_auto(PQfreeCancel) PGcancel *cancel = opaque;
    char message[256];
    if (!PQcancel(cancel, message, sizeof(message))) {
        cv_log(CV_LOG_DEBUG, "database: cannot cancel a statement: %s", message);
    }
    return NULL;
}

/* In a thread of its own, because PQcancel waits for the server without an end, and a server that
 * does not answer is one reason to come here. */
static void ask_to_stop(struct cv_db *db)
{
    cv_auto(PQfreeCancel) PGcancel *cancel = PQgetCancel(db->connection);
    pthread_t thread;
    if (!cancel || pthread_create(&thread, NULL, run_cancel, cancel)) {
        cv_log(CV_LOG_DEBUG, "database: cannot cancel a statement");
        return;
    }
    (void)cv_take(cancel);
    (void)pthread_detach(thread);
}

/* Writes what is to be written and reads until a result is there, or fails. Outcomes as
 * cv_db_wait. */
static int wait_for_result(struct cv_db *db, const struct cv_db_wait *wait, struct cv_error *error)
{
    while (true) {
        int unsent = PQflush(db->connection);
        if (unsent < 0) {
            return fail_connection(db, error);
        }
        if (unsent == 0 && !PQisBusy(db->connection)) {
            return CV_DB_READY;
        }
        short events = (short)(POLLIN | (unsent ? POLLOUT : 0));
        int result = cv_db_wait(PQsocket(db->connection), events, wait, error);
        if (result) {
            return result;
        }
        if (!PQconsumeInput(db->connection)) {
            return fail_connection(db, error);
        }
    }
}

/* wait_for_result; a wait that was ended asks the server to stop and gives it a moment: what it
 * answers then (mostly 57014, sometimes the finished work) is the result. */
static int next_result(struct cv_db *db, struct cv_db_wait *wait, int *ended, PGresult **ret_result,
                       struct cv_error *error)
{
    int result = wait_for_result(db, wait, error);
    if (result > 0 && *ended == CV_DB_READY) {
        *ended = result;
        ask_to_stop(db);
        *wait = (struct cv_db_wait){cv_monotonic_ms() + STOP_GRACE_MS, NULL};
        result = wait_for_result(db, wait, error);
    }
    if (result < 0) {
        return result;
    }
    if (result > 0) {
        cv_db_drop(db);
        return cv_fail(error, CV_ERROR_CONNECTION,
                       "the database did not answer, the connection is given up");
    }
    *ret_result = PQgetResult(db->connection);
    return 0;
}

static int send_request(struct cv_db *db, const struct cv_db_request *request,
                        struct cv_error *error)
{
    if (!cv_db_is_connected(db)) {
        return fail_connection(db, error);
    }
    if (request->count > INT16_MAX) {
        return cv_fail(error, CV_ERROR_INTERNAL, "too many parameters of a statement");
    }
    int count = (int)request->count;
    int sent = 0;
    switch (request->kind) {
    case CV_DB_SCRIPT:
        sent = PQsendQuery(db->connection, request->sql);
        break;
    case CV_DB_STATEMENT:
        sent = PQsendQueryParams(db->connection, request->sql, count, NULL, request->parameters,
                                 NULL, NULL, 0);
        break;
    case CV_DB_PREPARE:
        sent = PQsendPrepare(db->connection, request->name, request->sql, 0, NULL);
        break;
    case CV_DB_PREPARED:
        sent = PQsendQueryPrepared(db->connection, request->name, count, request->parameters, NULL,
                                   NULL, 0);
        break;
    }
    return sent ? 0 : fail_connection(db, error);
}

static bool is_success(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY;
}

static bool is_copy(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

/* What a failed result means, given how its wait ended. */
static int fail_statement(struct cv_db *db, const PGresult *result, int ended, int64_t timeout_ms,
                          struct cv_error *error)
{
    int failure = cv_db_fail_result(db, result, error);
    if (strcmp(db->sqlstate, "57014") != 0 || ended == CV_DB_READY) {
        return failure;
    }
    if (ended == CV_DB_ABORTED) {
        return cv_fail(error, CV_ERROR_CANCELED, "stopped during a statement");
    }
    return cv_fail(error, CV_ERROR_TIMEOUT, "a statement took more than %lld ms",
                   (long long)timeout_ms);
}

/* Takes every result of the statement; *last is the last one, and stays when the connection is lost
 * behind it. */
static int collect_results(struct cv_db *db, struct cv_db_wait *wait, int *ended, PGresult **last,
                           struct cv_error *error)
{
    while (true) {
        PGresult *next = NULL;
        int result = next_result(db, wait, ended, &next, error);
        if (result || !next) {
            return result;
        }
        PQclear(*last);
        *last = next;
        if (is_copy(next)) {
            cv_db_drop(db);
            return cv_fail(error, CV_ERROR_INTERNAL, "COPY is not supported here");
        }
    }
}

int cv_db_execute(struct cv_db *db, const struct cv_db_request *request,
                  const struct cv_db_wait *bounds, PGresult **ret_result, struct cv_error *error)
{
    db->sqlstate[0] = '\0';
    int64_t start = cv_monotonic_ms();
    struct cv_db_wait wait =
        bounds ? *bounds : (struct cv_db_wait){start + db->statement_timeout_ms, db->cancel};
    int64_t timeout_ms = wait.deadline_ms - start;
    if (cv_cancel_level(wait.cancel) == CV_CANCEL_ABORT) {
        return cv_fail(error, CV_ERROR_CANCELED, "stopped before a statement");
    }
    int result = send_request(db, request, error);
    if (result) {
        return result;
    }
    int ended = CV_DB_READY;
    cv_auto(PQclear) PGresult *last = NULL;
    result = collect_results(db, &wait, &ended, &last, error);
    if (last && PQresultStatus(last) == PGRES_FATAL_ERROR) { /* why the server hangs up, perhaps */
        result = fail_statement(db, last, ended, timeout_ms, error);
        if (db->connection && PQstatus(db->connection) == CONNECTION_BAD) {
            cv_db_drop(db);
        }
        return result;
    }
    if (result) {
        return result;
    }
    if (!last || !is_success(last)) {
        return fail_connection(db, error);
    }
    *ret_result = cv_take(last);
    return 0;
}

int cv_db_script(struct cv_db *db, const char *sql, struct cv_error *error)
{
    cv_auto(PQclear) PGresult *result = NULL;
    struct cv_db_request request = {.kind = CV_DB_SCRIPT, .sql = sql};
    return cv_db_execute(db, &request, NULL, &result, error);
}

int cv_db_begin(struct cv_db *db, struct cv_error *error)
{
    if (db->connection && PQtransactionStatus(db->connection) != PQTRANS_IDLE) {
        return cv_fail(error, CV_ERROR_INTERNAL, "a transaction is open already");
    }
    /* Locks of a client that is gone end here, not with the two hours of TCP's keep-alive. */
    char begin[96];
    (void)snprintf(begin, sizeof(begin),
                   "BEGIN; SET LOCAL idle_in_transaction_session_timeout = %lld",
                   (long long)db->statement_timeout_ms);
    return cv_db_script(db, begin, error);
}

int cv_db_commit(struct cv_db *db, struct cv_error *error)
{
    if (db->connection && PQtransactionStatus(db->connection) == PQTRANS_IDLE) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no transaction is open to be committed");
    }
    cv_auto(PQclear) PGresult *result = NULL;
    struct cv_db_request commit = {.kind = CV_DB_SCRIPT, .sql = "COMMIT"};
    int failure = cv_db_execute(db, &commit, NULL, &result, error);
    if (failure) {
        return failure;
    }
    if (strcmp(PQcmdStatus(result), "COMMIT") != 0) { /* an earlier failure makes it ROLLBACK */
        return cv_fail(error, CV_ERROR_INTERNAL,
                       "the transaction was rolled back, a statement in it had failed");
    }
    return 0;
}

bool cv_db_in_transaction(const struct cv_db *db)
{
    return db->connection && PQtransactionStatus(db->connection) != PQTRANS_IDLE;
}

void cv_db_rollback(struct cv_db *db)
{
    if (!cv_db_is_connected(db) || PQtransactionStatus(db->connection) == PQTRANS_IDLE) {
        return;
    }
    char sqlstate[CV_SQLSTATE_SIZE];
    (void)memcpy(sqlstate, db->sqlstate, sizeof(sqlstate));
    struct cv_db_wait wait = {cv_monotonic_ms() + ROLLBACK_TIMEOUT_MS, NULL};
    cv_auto(PQclear) PGresult *result = NULL;
    struct cv_error error;
    struct cv_db_request rollback = {.kind = CV_DB_SCRIPT, .sql = "ROLLBACK"};
    if (cv_db_execute(db, &rollback, &wait, &result, &error)) {
        cv_db_drop(db); /* closing it rolls back too */
    }
    (void)memcpy(db->sqlstate, sqlstate, sizeof(sqlstate));
}

const char *cv_db_sqlstate(const struct cv_db *db)
{
    return db->sqlstate;
}
