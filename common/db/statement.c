/* Statements, their rows, transactions, and statements that a session keeps prepared. */
#include "common/db/connection.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

enum {
    /* How long the server may take to stop a statement before the connection is closed. */
    STOP_GRACE_MS = 2 * 1000,
    ROLLBACK_TIMEOUT_MS = 5 * 1000,
    NAME_SIZE = 16, /* of a prepared statement */
    PREPARED_FULL = 1,
};

enum request_kind {
    SEND_SCRIPT,       /* several statements in one text, no parameters */
    SEND_STATEMENT,    /* one statement with its parameters */
    SEND_PREPARE,      /* parse one statement and keep it under `name` */
    SEND_RUN_PREPARED, /* run the statement kept under `name` */
    SEND_PAIR,         /* `first` and the statement, in one transaction and one round trip */
};

struct request {
    enum request_kind kind;
    struct cv_db_statement statement;
    const char *name;
    const struct cv_db_statement *first;
};

struct cv_db_result {
    PGresult *rows;
};

CV_DEFINE_CLEANUP(PGcancel *, PQfreeCancel)
CV_DEFINE_CLEANUP(PGresult *, PQclear)

/* ---- sending and waiting --------------------------------------------------------------------- */

/* Raises the error that the server, or libpq, reports for a failed statement. */
static int fail_result(struct cv_db *db, const PGresult *result, struct cv_error *error)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (!sqlstate) { /* the message is libpq's: the server did not answer */
        return cv_db_fail_connection(db, error);
    }
    (void)snprintf(db->sqlstate, sizeof(db->sqlstate), "%s", sqlstate);
    const char *column = PQresultErrorField(result, PG_DIAG_COLUMN_NAME);
    (void)snprintf(db->column, sizeof(db->column), "%s", column ? column : "");
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
        cv_log(CV_LOG_DEBUG, "database: cannot ask the server to cancel a statement: %s", message);
    }
    return NULL;
}

/* Cancels in another thread, because PQcancel waits for the server without a time limit, and the
 * server may be the reason for the time-out. */
static void ask_to_stop(struct cv_db *db)
{
    cv_auto(PQfreeCancel) PGcancel *cancel = PQgetCancel(db->connection);
    pthread_t thread;
    if (!cancel || pthread_create(&thread, NULL, run_cancel, cancel)) {
        cv_log(CV_LOG_DEBUG, "database: cannot ask the server to cancel a statement");
        return;
    }
    (void)cv_take(cancel);
    (void)pthread_detach(thread);
}

/* Sends the request and reads until libpq has a result. Returns as cv_db_wait does. */
static int wait_for_result(struct cv_db *db, const struct cv_db_wait *wait, struct cv_error *error)
{
    while (true) {
        int unsent = PQflush(db->connection);
        if (unsent < 0) {
            return cv_db_fail_connection(db, error);
        }
        if (unsent == 0 && !PQisBusy(db->connection)) {
            return CV_DB_READY;
        }
        short events = (short)(POLLIN | (unsent ? POLLOUT : 0));
        CV_TRY(cv_db_wait(PQsocket(db->connection), events, wait, error));
        if (!PQconsumeInput(db->connection)) {
            return cv_db_fail_connection(db, error);
        }
    }
}

/* Waits for the next result. After a time-out or an abort, asks the server to stop the statement and
 * waits STOP_GRACE_MS for its answer: mostly SQLSTATE 57014, sometimes the finished result. `*ended`
 * keeps why the wait ended. */
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
                       "the database did not answer and the connection was closed");
    }
    *ret_result = PQgetResult(db->connection);
    return 0;
}

static int send_statement(PGconn *connection, const struct cv_db_statement *statement)
{
    return PQsendQueryParams(connection, statement->sql, (int)statement->count, NULL,
                             statement->parameters, NULL, NULL, 0);
}

static int send_request(struct cv_db *db, const struct request *request, struct cv_error *error)
{
    const struct cv_db_statement *statement = &request->statement;
    if (!cv_db_is_connected(db)) {
        return cv_db_fail_connection(db, error);
    }
    if (statement->count > INT16_MAX) {
        return cv_fail(error, CV_ERROR_INTERNAL, "a statement has %zu parameters, more than %d",
                       statement->count, INT16_MAX);
    }
    int count = (int)statement->count;
    int sent = 0;
    switch (request->kind) {
    case SEND_SCRIPT:
        sent = PQsendQuery(db->connection, statement->sql);
        break;
    case SEND_STATEMENT:
        sent = send_statement(db->connection, statement);
        break;
    case SEND_PAIR:
        sent = PQenterPipelineMode(db->connection) &&
               send_statement(db->connection, request->first) &&
               send_statement(db->connection, statement) && PQpipelineSync(db->connection);
        break;
    case SEND_PREPARE:
        sent = PQsendPrepare(db->connection, request->name, statement->sql, 0, NULL);
        break;
    case SEND_RUN_PREPARED:
        sent = PQsendQueryPrepared(db->connection, request->name, count, statement->parameters,
                                   NULL, NULL, 0);
        break;
    }
    return sent ? 0 : cv_db_fail_connection(db, error);
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

/* Raises the error of a failed result. When the wait for it was ended here, the error says why. */
static int fail_statement(struct cv_db *db, const PGresult *result, int ended, int64_t timeout_ms,
                          struct cv_error *error)
{
    int failure = fail_result(db, result, error);
    if (strcmp(db->sqlstate, "57014") != 0 || ended == CV_DB_READY) {
        return failure;
    }
    if (ended == CV_DB_ABORTED) {
        return cv_fail(error, CV_ERROR_CANCELED, "canceled during a statement");
    }
    return cv_fail(error, CV_ERROR_TIMEOUT, "a statement took more than %lld ms",
                   (long long)timeout_ms);
}

/* Reads all results of a request. *last is the last one, also when the connection is lost after it. */
static int collect_results(struct cv_db *db, struct cv_db_wait *wait, int *ended, PGresult **last,
                           struct cv_error *error)
{
    while (true) {
        PGresult *next = NULL;
        CV_TRY(next_result(db, wait, ended, &next, error));
        if (!next) {
            return 0;
        }
        PQclear(*last);
        *last = next;
        if (is_copy(next)) {
            cv_db_drop(db);
            return cv_fail(error, CV_ERROR_INTERNAL, "cv_db does not support COPY");
        }
    }
}

/* The same of a pair: *last is the second statement's result, or the first failure. */
static int collect_pair(struct cv_db *db, struct cv_db_wait *wait, int *ended, PGresult **last,
                        struct cv_error *error)
{
    for (int ends = 0; ends <= 2;) { /* one after each statement, and none after the pair */
        cv_auto(PQclear) PGresult *next = NULL;
        int result = next_result(db, wait, ended, &next, error);
        if (result) {
            cv_db_drop(db);
            return result;
        }
        if (PQresultStatus(next) == PGRES_PIPELINE_SYNC && PQexitPipelineMode(db->connection)) {
            return 0;
        }
        ends += !next;
        if (next && (!*last || PQresultStatus(*last) != PGRES_FATAL_ERROR)) {
            PGresult *before = *last;
            *last = cv_take(next);
            next = before;
        }
    }
    int result = cv_db_fail_connection(db, error);
    cv_db_drop(db);
    return result;
}

/* Sends a request and waits for all its results; *ret_result is the last one. `bounds` NULL: the
 * connection's own time-out and cancel object. */
static int execute(struct cv_db *db, const struct request *request, const struct cv_db_wait *bounds,
                   PGresult **ret_result, struct cv_error *error)
{
    db->sqlstate[0] = '\0';
    int64_t start = cv_monotonic_ms();
    struct cv_db_wait wait =
        bounds ? *bounds : (struct cv_db_wait){start + db->statement_timeout_ms, db->cancel};
    int64_t timeout_ms = wait.deadline_ms - start;
    if (cv_cancel_level(wait.cancel) == CV_CANCEL_ABORT) {
        return cv_fail(error, CV_ERROR_CANCELED, "canceled before a statement");
    }
    CV_TRY(send_request(db, request, error));
    int ended = CV_DB_READY;
    cv_auto(PQclear) PGresult *last = NULL;
    int result = request->kind == SEND_PAIR ? collect_pair(db, &wait, &ended, &last, error)
                                            : collect_results(db, &wait, &ended, &last, error);
    if (last && PQresultStatus(last) ==
                    PGRES_FATAL_ERROR) { /* may say why the server closes the connection */
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
        return cv_db_fail_connection(db, error);
    }
    *ret_result = cv_take(last);
    return 0;
}

int cv_db_script(struct cv_db *db, const char *sql, struct cv_error *error)
{
    cv_auto(PQclear) PGresult *result = NULL;
    struct request request = {.kind = SEND_SCRIPT, .statement.sql = sql};
    return execute(db, &request, NULL, &result, error);
}

const char *cv_db_sqlstate(const struct cv_db *db)
{
    return db->sqlstate;
}

const char *cv_db_error_column(const struct cv_db *db)
{
    return db->column;
}

/* ---- rows ------------------------------------------------------------------------------------ */

void cv_db_result_free(struct cv_db_result *result)
{
    if (result) {
        PQclear(result->rows);
        free(result);
    }
}

/* Hands *rows to the caller, unless the caller wants none. */
static int return_rows(PGresult **rows, struct cv_db_result **ret_result, struct cv_error *error)
{
    if (!ret_result) {
        return 0;
    }
    struct cv_db_result *result = calloc(1, sizeof(*result));
    CV_TRY_MEMORY(result, error, "rows");
    result->rows = cv_take(*rows);
    *ret_result = result;
    return 0;
}

static int run(struct cv_db *db, const struct request *request, struct cv_db_result **ret_result,
               struct cv_error *error)
{
    cv_auto(PQclear) PGresult *rows = NULL;
    CV_TRY(execute(db, request, NULL, &rows, error));
    return return_rows(&rows, ret_result, error);
}

int cv_db_query(struct cv_db *db, const struct cv_db_statement *statement,
                struct cv_db_result **ret_result, struct cv_error *error)
{
    struct request request = {.kind = SEND_STATEMENT, .statement = *statement};
    return run(db, &request, ret_result, error);
}

int cv_db_query_after(struct cv_db *db, const struct cv_db_statement *first,
                      const struct cv_db_statement *statement, struct cv_db_result **ret_result,
                      struct cv_error *error)
{
    struct request request = {.kind = SEND_PAIR, .statement = *statement, .first = first};
    return run(db, &request, ret_result, error);
}

void cv_db_array_append(struct cv_buffer *array, const char *value)
{
    cv_buffer_text(array, array->length > 1 ? ",\"" : "\"");
    for (const char *c = value; *c; c++) {
        cv_buffer_printf(array, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    cv_buffer_text(array, "\"");
}

struct cv_db_number cv_db_number(int64_t value)
{
    struct cv_db_number number;
    (void)snprintf(number.text, sizeof(number.text), "%lld", (long long)value);
    return number;
}

int cv_db_rows(const struct cv_db_result *result)
{
    return PQntuples(result->rows);
}

const char *cv_db_text(const struct cv_db_result *result, int row, const char *column)
{
    int index = PQfnumber(result->rows, column);
    assert(index >= 0 && "no such column");
    assert(row >= 0 && row < PQntuples(result->rows));
    return PQgetisnull(result->rows, row, index) ? NULL : PQgetvalue(result->rows, row, index);
}

int64_t cv_db_int(const struct cv_db_result *result, int row, const char *column, int64_t fallback)
{
    const char *text = cv_db_text(result, row, column);
    return text ? strtoll(text, NULL, 10) : fallback;
}

double cv_db_double(const struct cv_db_result *result, int row, const char *column, double fallback)
{
    const char *text = cv_db_text(result, row, column);
    return text ? strtod(text, NULL) : fallback;
}

bool cv_db_bool(const struct cv_db_result *result, int row, const char *column)
{
    const char *text = cv_db_text(result, row, column);
    return text && text[0] == 't';
}

/* ---- transactions ---------------------------------------------------------------------------- */

int cv_db_begin(struct cv_db *db, struct cv_error *error)
{
    if (db->connection && PQtransactionStatus(db->connection) != PQTRANS_IDLE) {
        return cv_fail(error, CV_ERROR_INTERNAL, "a transaction is already open");
    }
    /* Without this, a client that has lost its network keeps its locks until TCP's keep-alive ends
     * the session, after two hours. */
    char begin[96];
    (void)snprintf(begin, sizeof(begin),
                   "BEGIN; SET LOCAL idle_in_transaction_session_timeout = %lld",
                   (long long)db->statement_timeout_ms);
    return cv_db_script(db, begin, error);
}

int cv_db_commit(struct cv_db *db, struct cv_error *error)
{
    if (db->connection && PQtransactionStatus(db->connection) == PQTRANS_IDLE) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no transaction is open");
    }
    cv_auto(PQclear) PGresult *result = NULL;
    struct request commit = {.kind = SEND_SCRIPT, .statement.sql = "COMMIT"};
    CV_TRY(execute(db, &commit, NULL, &result, error));
    if (strcmp(PQcmdStatus(result), "COMMIT") !=
        0) { /* PostgreSQL rolls back instead after a failed statement */
        return cv_fail(error, CV_ERROR_INTERNAL,
                       "the transaction was rolled back because a statement in it had failed");
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
    struct request rollback = {.kind = SEND_SCRIPT, .statement.sql = "ROLLBACK"};
    if (execute(db, &rollback, &wait, &result, &error)) {
        cv_db_drop(db); /* closing it rolls back too */
    }
    (void)memcpy(db->sqlstate, sqlstate, sizeof(sqlstate));
}

/* ---- prepared statements --------------------------------------------------------------------- */

/* Errors of a prepared statement whose tables or session have changed since it was prepared: the same
 * text, parsed again, may succeed. */
static const char *const stale[] = {
    "26000", /* no such prepared statement: the session was reset */
    "42P05", /* the name is taken by another prepared statement */
    "0A000", /* "cached plan must not change result type" */
    "42804", /* a function returns other columns than it did when the plan was made */
};

void cv_db_forget_prepared(struct cv_db_prepared *prepared)
{
    for (size_t i = 0; i < prepared->count; i++) {
        free(prepared->texts[i]);
    }
    *prepared = (struct cv_db_prepared){0};
}

static bool is_stale(const char *sqlstate)
{
    for (size_t i = 0; i < CV_COUNT(stale); i++) {
        if (strcmp(sqlstate, stale[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A pooler gives its clients process ids of its own making, because it forwards their cancel requests:
 * the id that libpq got when connecting then differs from the server's. */
static int find_session(struct cv_db *db, struct cv_error *error)
{
    if (db->prepared.session != CV_DB_SESSION_UNKNOWN) {
        return 0;
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error, "SELECT pg_backend_pid() AS pid"));
    db->prepared.session = cv_db_int(rows, 0, "pid", 0) == PQbackendPID(db->connection)
                               ? CV_DB_SESSION_OWN
                               : CV_DB_SESSION_POOLED;
    return 0;
}

static void name_prepared(char name[NAME_SIZE], size_t index)
{
    (void)snprintf(name, NAME_SIZE, "cv_%zu", index);
}

/* Finds a statement among the prepared ones, or prepares it; PREPARED_FULL when there is no room. */
static int prepare(struct cv_db *db, const char *sql, char ret_name[NAME_SIZE],
                   struct cv_error *error)
{
    struct cv_db_prepared *prepared = &db->prepared;
    for (size_t i = 0; i < prepared->count; i++) {
        if (strcmp(prepared->texts[i], sql) == 0) {
            name_prepared(ret_name, i);
            return 0;
        }
    }
    if (prepared->count == CV_DB_PREPARED_MOST) {
        return PREPARED_FULL;
    }
    cv_auto_free char *copy = strdup(sql);
    CV_TRY_MEMORY(copy, error, "a statement");
    name_prepared(ret_name, prepared->count);
    struct request request = {.kind = SEND_PREPARE, .statement.sql = sql, .name = ret_name};
    CV_TRY(run(db, &request, NULL, error));
    prepared->texts[prepared->count++] = cv_take(copy);
    return 0;
}

static int run_prepared(struct cv_db *db, const struct cv_db_statement *statement,
                        struct cv_db_result **ret_result, struct cv_error *error)
{
    char name[NAME_SIZE];
    int result = prepare(db, statement->sql, name, error);
    if (result) {
        return result == PREPARED_FULL ? cv_db_query(db, statement, ret_result, error) : result;
    }
    struct request request = {.kind = SEND_RUN_PREPARED, .statement = *statement, .name = name};
    return run(db, &request, ret_result, error);
}

int cv_db_query_prepared(struct cv_db *db, const struct cv_db_statement *statement,
                         struct cv_db_result **ret_result, struct cv_error *error)
{
    if (cv_db_in_transaction(db)) {
        return cv_db_query(db, statement, ret_result, error);
    }
    CV_TRY(find_session(db, error));
    if (db->prepared.session == CV_DB_SESSION_POOLED) {
        return cv_db_query(db, statement, ret_result, error);
    }
    int result = run_prepared(db, statement, ret_result, error);
    if (result < 0 && cv_db_is_connected(db) && is_stale(db->sqlstate)) {
        cv_db_forget_prepared(&db->prepared);
        CV_TRY(cv_db_script(db, "DEALLOCATE ALL", error));
        return cv_db_query(db, statement, ret_result, error);
    }
    return result;
}
