#include "common/db/connection.h"

#include <ctype.h>
#include <poll.h>
#include <string.h>

enum {
    CONNECT_TIMEOUT_MS = 10 * 1000,
    STATEMENT_TIMEOUT_MS = 5 * 60 * 1000,
    /* Pauses between tries: from 100 ms, so that a restart is over soon, to 10 s, so that a server
     * that comes back is not met by everybody at once. */
    PAUSE_LEAST_MS = 100,
    PAUSE_MOST_MS = 10 * 1000,
};

/* A silent network is noticed within 30 s, well within a lease of minutes. The connection text may
 * say otherwise. */
#define USER_TIMEOUT_MS "30000"
#define KEEPALIVE_IDLE_S "15"
#define KEEPALIVE_INTERVAL_S "5"
#define KEEPALIVE_COUNT "3"

CV_DEFINE_CLEANUP(PQconninfoOption *, PQconninfoFree)

static int copy_text(char **ret_text, const char *text, struct cv_error *error)
{
    char *copy = strdup(text);
    if (!copy) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a connection");
    }
    *ret_text = copy;
    return 0;
}

static bool is_port_list(const char *text)
{
    return text[strspn(text, "0123456789,")] == '\0';
}

/* libpq quotes what it cannot read, and half of a password with an unescaped '@' or '/' is read as
 * host or port: such texts are refused here, in words that quote nothing. */
static int check_conninfo(const char *conninfo, struct cv_error *error)
{
    if (!strchr(conninfo, '=') && !strstr(conninfo, "://")) {
        return 0; /* the bare name of a database */
    }
    char *reason = NULL;
    cv_auto(PQconninfoFree) PQconninfoOption *options = PQconninfoParse(conninfo, &reason);
    PQfreemem(reason);
    if (!options) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the connection text is neither a postgresql:// URL nor key=value pairs");
    }
    for (const PQconninfoOption *option = options; option->keyword; option++) {
        if (!option->val) {
            continue;
        }
        bool host = strcmp(option->keyword, "host") == 0 && option->val[0] != '/' &&
                    option->val[0] != '@' && strchr(option->val, '@');
        bool port = strcmp(option->keyword, "port") == 0 && !is_port_list(option->val);
        if (host || port) {
            return cv_fail(error, CV_ERROR_CONFIGURATION,
                           "the connection URL has no readable %s; in a user name or password "
                           "write '@' as %%40, ':' as %%3A and '/' as %%2F",
                           option->keyword);
        }
    }
    return 0;
}

/* With PQERRORS_VERBOSE a refusal reads "FATAL:  28P01: …": the only way to a SQLSTATE here. */
static bool find_sqlstate(const char *message, char ret_sqlstate[CV_SQLSTATE_SIZE],
                          const char **ret_text)
{
    enum { LENGTH = CV_SQLSTATE_SIZE - 1 };
    for (const char *c = strstr(message, ":  "); c; c = strstr(c + 1, ":  ")) {
        const char *code = c + 3;
        size_t length = 0;
        while (length < LENGTH &&
               (isdigit((unsigned char)code[length]) || isupper((unsigned char)code[length]))) {
            length++;
        }
        if (length == LENGTH && code[LENGTH] == ':') {
            (void)memcpy(ret_sqlstate, code, LENGTH);
            ret_sqlstate[LENGTH] = '\0';
            *ret_text = code + LENGTH + 1;
            return true;
        }
    }
    return false;
}

static int fail_connect(struct cv_db *db, PGconn *connection, struct cv_error *error)
{
    char message[sizeof(error->message)];
    (void)snprintf(message, sizeof(message), "%s", PQerrorMessage(connection));
    cv_redact(message);

    const char *text = NULL;
    if (find_sqlstate(message, db->sqlstate, &text)) {
        size_t length = strcspn(text, "\n"); /* the lines after it name PostgreSQL's source */
        return cv_fail(error, cv_db_error_type(db->sqlstate), "the database refuses us:%.*s",
                       (int)length, text);
    }
    if (PQconnectionNeedsPassword(connection)) {
        return cv_fail(error, CV_ERROR_AUTHENTICATION, "the database wants a password: %s",
                       message);
    }
    return cv_fail(error, CV_ERROR_CONNECTION, "no connection to the database: %s", message);
}

static int poll_connection(struct cv_db *db, PGconn *connection, int64_t timeout_ms,
                           struct cv_error *error)
{
    struct cv_db_wait wait = {cv_monotonic_ms() + timeout_ms, db->cancel};
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    while (status != PGRES_POLLING_OK) {
        if (status == PGRES_POLLING_FAILED || PQstatus(connection) == CONNECTION_BAD) {
            return fail_connect(db, connection, error);
        }
        short events = status == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        int result = cv_db_wait(PQsocket(connection), events, &wait, error);
        if (result == CV_DB_TIMED_OUT) {
            return cv_fail(error, CV_ERROR_CONNECTION, "the database did not answer within %lld ms",
                           (long long)timeout_ms);
        }
        if (result == CV_DB_ABORTED) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped while connecting to the database");
        }
        if (result) {
            return result;
        }
        status = PQconnectPoll(connection);
    }
    return 0;
}

static void take_notice(void *unused, const char *message)
{
    (void)unused;
    cv_log(CV_LOG_DEBUG, "database: %s", message);
}

int cv_db_connect(struct cv_db *db, int64_t timeout_ms, struct cv_error *error)
{
    /* What stands before dbname yields to the connection text, what stands behind it does not. */
    const char *const keywords[] = {
        "tcp_user_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count",
        "dbname",           "client_encoding", "application_name",    NULL,
    };
    const char *const values[] = {
        USER_TIMEOUT_MS, KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT,
        db->conninfo,    "UTF8",           db->application_name, NULL,
    };
    db->sqlstate[0] = '\0';
    cv_auto(PQfinish) PGconn *connection = PQconnectStartParams(keywords, values, 1);
    if (!connection) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a connection");
    }
    (void)PQsetNoticeProcessor(connection, take_notice, NULL);
    (void)PQsetErrorVerbosity(connection, PQERRORS_VERBOSE);
    int result = poll_connection(db, connection, timeout_ms, error);
    if (result) {
        return result;
    }
    if (PQsetnonblocking(connection, 1)) {
        return cv_fail(error, CV_ERROR_CONNECTION, "cannot make the connection non-blocking");
    }
    db->connection = cv_take(connection);
    for (size_t i = 0; i < db->channel_count; i++) {
        result = cv_db_send_listen(db, db->channels[i], error);
        if (result) {
            cv_db_drop(db);
            return result;
        }
    }
    return 0;
}

void cv_db_drop(struct cv_db *db)
{
    PQfinish(db->connection);
    db->connection = NULL;
    db->way = CV_DB_WAY_UNKNOWN;
    cv_db_forget_repeated(db);
}

int cv_db_open(const struct cv_db_params *params, struct cv_db **ret_db, struct cv_error *error)
{
    cv_auto(cv_db_close) struct cv_db *db = calloc(1, sizeof(*db));
    if (!db) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a connection");
    }
    db->cancel = params->cancel;
    db->connect_timeout_ms =
        params->connect_timeout_ms ? params->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    db->statement_timeout_ms =
        params->statement_timeout_ms ? params->statement_timeout_ms : STATEMENT_TIMEOUT_MS;

    const char *conninfo = params->conninfo ? params->conninfo : cv_env("DATABASE_URL", "");
    const char *name = params->application_name ? params->application_name : "cortana";
    int result = check_conninfo(conninfo, error);
    if (result == 0) {
        result = copy_text(&db->conninfo, conninfo, error);
    }
    if (result == 0) {
        result = copy_text(&db->application_name, name, error);
    }
    if (result == 0) {
        result = cv_db_connect(db, db->connect_timeout_ms, error);
    }
    if (result) {
        return result;
    }
    *ret_db = cv_take(db);
    return 0;
}

void cv_db_close(struct cv_db *db)
{
    if (!db) {
        return;
    }
    cv_db_drop(db);
    for (size_t i = 0; i < db->channel_count; i++) {
        free(db->channels[i]);
    }
    free(db->channels);
    free(db->application_name);
    free(db->conninfo);
    free(db);
}

bool cv_db_is_connected(const struct cv_db *db)
{
    return db->connection && PQstatus(db->connection) == CONNECTION_OK;
}

static bool may_come_back(const struct cv_error *error)
{
    return error->type == CV_ERROR_CONNECTION || error->type == CV_ERROR_THROTTLED ||
           error->type == CV_ERROR_SERVER || error->type == CV_ERROR_TIMEOUT;
}

/* Decorrelated jitter (M. Brooker, "Exponential Backoff And Jitter", 2015): each pause is drawn
 * between the least and three times the pause before it. */
static int64_t next_pause(int64_t previous)
{
    int64_t range = previous * 3 - PAUSE_LEAST_MS;
    int64_t pause = PAUSE_LEAST_MS + (int64_t)arc4random_uniform((uint32_t)range + 1);
    return pause < PAUSE_MOST_MS ? pause : PAUSE_MOST_MS;
}

int cv_db_reconnect(struct cv_db *db, int64_t timeout_ms, struct cv_error *error)
{
    if (cv_db_is_connected(db)) {
        return 0;
    }
    cv_db_drop(db);
    int64_t deadline = cv_monotonic_ms() + timeout_ms;
    int64_t pause = PAUSE_LEAST_MS;
    while (true) {
        int64_t left = deadline - cv_monotonic_ms();
        int64_t one_try = left < db->connect_timeout_ms ? left : db->connect_timeout_ms;
        int result = cv_db_connect(db, one_try > 1 ? one_try : 1, error);
        if (result == 0 || !may_come_back(error)) {
            return result;
        }
        pause = next_pause(pause);
        int64_t now = cv_monotonic_ms();
        if (now + pause >= deadline) {
            struct cv_error last = *error;
            return cv_fail(error, CV_ERROR_CONNECTION,
                           "the database was away for more than %lld ms: %s", (long long)timeout_ms,
                           last.message);
        }
        struct cv_db_wait wait = {now + pause, db->cancel};
        result = cv_db_wait(-1, 0, &wait, error);
        if (result < 0) {
            return result;
        }
        if (result == CV_DB_ABORTED) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped while the database was away");
        }
    }
}
