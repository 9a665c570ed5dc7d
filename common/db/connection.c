#include "common/db/connection.h"

#include "common/db/db.h"

#include <ctype.h>
#include <poll.h>
#include <string.h>

/* ---- the meaning of each SQLSTATE ------------------------------------------------------------ */

/* What each SQLSTATE means for a job. */

/* A prefix is a class (2 characters), several codes of a class (3) or one code (5); the longest match
 * decides. Codes: PostgreSQL manual, appendix A. */
static const struct {
    const char *prefix;
    enum cv_error_type type;
} meanings[] = {
    {"08", CV_ERROR_CONNECTION},       /* connection exception */
    {"21", CV_ERROR_INVALID_PAYLOAD},  /* cardinality violation */
    {"22", CV_ERROR_INVALID_PAYLOAD},  /* a value that its column cannot hold */
    {"23", CV_ERROR_CONSTRAINT},       /* integrity constraint violation */
    {"25006", CV_ERROR_SERVER},        /* read-only: this is a standby, as during a failover */
    {"25P03", CV_ERROR_CONNECTION},    /* idle in transaction for too long: the session was ended */
    {"28", CV_ERROR_AUTHENTICATION},   /* invalid authorization */
    {"3D", CV_ERROR_CONFIGURATION},    /* no such database */
    {"40", CV_ERROR_CONFLICT},         /* serialization failure, deadlock: rolled back */
    {"42", CV_ERROR_DATABASE},         /* the statement does not fit the schema */
    {"42501", CV_ERROR_AUTHORIZATION}, /* insufficient privilege */
    {"44", CV_ERROR_CONSTRAINT},       /* WITH CHECK OPTION violation */
    {"53", CV_ERROR_SERVER},           /* insufficient resources */
    {"53100", CV_ERROR_DISK_FULL},     /* disk full */
    {"53200", CV_ERROR_OUT_OF_MEMORY}, /* out of memory */
    {"53300", CV_ERROR_THROTTLED},     /* too many connections */
    {"54", CV_ERROR_LIMIT_EXCEEDED},   /* program limit exceeded */
    {"55", CV_ERROR_CONFLICT},         /* object in use, lock not available */
    {"57014", CV_ERROR_TIMEOUT},       /* statement canceled, most often by statement_timeout */
    {"57P", CV_ERROR_CONNECTION},      /* shutdown, crash, starting up, session time-out */
    {"57P04", CV_ERROR_CONFIGURATION}, /* the database was dropped */
    {"58", CV_ERROR_SERVER},           /* error of the operating system */
    {"XX", CV_ERROR_SERVER},           /* internal error */
};

enum cv_error_type cv_db_error_type(const char *sqlstate)
{
    enum cv_error_type type = CV_ERROR_DATABASE;
    size_t longest = 0;
    for (size_t i = 0; i < CV_COUNT(meanings); i++) {
        size_t length = strlen(meanings[i].prefix);
        if (length > longest && strncmp(sqlstate, meanings[i].prefix, length) == 0) {
            type = meanings[i].type;
            longest = length;
        }
    }
    return type;
}

/* Connecting, waiting for the server, and notifications. */

enum {
    CONNECT_TIMEOUT_MS = 10 * 1000,
    STATEMENT_TIMEOUT_MS = 5 * 60 * 1000,
    /* Pauses between attempts to connect: 100 ms at first, because a restart is often over soon, and
     * up to 10 s, so that a server that comes back is not flooded with connections. */
    FIRST_PAUSE_MS = 100,
    PAUSE_MOST_MS = 10 * 1000,
    /* After a drain the cancel descriptor stays readable for good. Waits then check the cancel
     * level this often instead: an abort is noticed soon, and the wait does not spin. */
    DRAIN_LOOK_MS = 50,
    LONGEST_POLL_MS = 60 * 60 * 1000,
};

/* A dead network is noticed within 30 s, well before a lease of minutes ends. The connection text
 * may set other values. */
#define USER_TIMEOUT_MS "30000"
#define KEEPALIVE_IDLE_S "15"
#define KEEPALIVE_INTERVAL_S "5"
#define KEEPALIVE_COUNT "3"

CV_DEFINE_CLEANUP(PGconn *, PQfinish)
CV_DEFINE_CLEANUP(PQconninfoOption *, PQconninfoFree)
CV_DEFINE_CLEANUP(PGnotify *, PQfreemem)

static int copy_text(char **ret_text, const char *text, struct cv_error *error)
{
    char *copy = strdup(text);
    CV_TRY_MEMORY(copy, error, "a connection");
    *ret_text = copy;
    return 0;
}

static bool is_port_list(const char *text)
{
    return text[strspn(text, "0123456789,")] == '\0';
}

/* When a password holds an unescaped '@' or '/', libpq takes part of the password for the host or
 * the port and quotes it in its error message. Such connection texts are refused here with a message
 * that quotes nothing. */
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
            return cv_fail(
                error, CV_ERROR_CONFIGURATION,
                "the %s in the connection URL cannot be read; in a user name or password "
                "write '@' as %%40, ':' as %%3A and '/' as %%2F",
                option->keyword);
        }
    }
    return 0;
}

/* The SQLSTATE of a refused connection, and the text after it. libpq gives it only inside the message,
 * as "FATAL:  28P01: …", and only with PQERRORS_VERBOSE. */
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
        size_t length = strcspn(text, "\n"); /* later lines name PostgreSQL's source files */
        return cv_fail(error, cv_db_error_type(db->sqlstate),
                       "the database refuses the connection:%.*s", (int)length, text);
    }
    if (PQconnectionNeedsPassword(connection)) {
        return cv_fail(error, CV_ERROR_AUTHENTICATION, "the database asks for a password: %s",
                       message);
    }
    return cv_fail(error, CV_ERROR_CONNECTION, "no connection to the database: %s", message);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static int slice_ms(const struct cv_db_wait *wait, bool draining)
{
    int64_t left = wait->deadline_ms - cv_monotonic_ms();
    if (left < 0) {
        return 0;
    }
    int64_t longest = draining ? DRAIN_LOOK_MS : LONGEST_POLL_MS;
    return (int)(left < longest ? left : longest);
}

int cv_db_wait(int fd, short events, const struct cv_db_wait *wait, struct cv_error *error)
{
    while (true) {
        enum cv_cancel_level level = cv_cancel_level(wait->cancel);
        if (level == CV_CANCEL_ABORT) {
            return CV_DB_ABORTED;
        }
        bool watch = wait->cancel && level == CV_CANCEL_NONE;
        struct pollfd polled[] = {
            {.fd = fd, .events = events},
            {.fd = watch ? cv_cancel_fd(wait->cancel) : -1, .events = POLLIN},
        };
        int count = poll(polled, CV_COUNT(polled), slice_ms(wait, level == CV_CANCEL_DRAIN));
        if (count < 0 && errno != EINTR) {
            return cv_fail_errno(error, errno, "cannot wait for the database connection");
        }
        if (count > 0 && polled[0].revents) {
            return CV_DB_READY;
        }
        if (cv_monotonic_ms() >= wait->deadline_ms) {
            return CV_DB_TIMED_OUT;
        }
    }
}

/* ---- connecting ------------------------------------------------------------------------------ */

void cv_db_drop(struct cv_db *db)
{
    PQfinish(db->connection);
    db->connection = NULL;
    cv_db_forget_prepared(&db->prepared);
}

int cv_db_fail_connection(struct cv_db *db, struct cv_error *error)
{
    char message[sizeof(error->message)];
    (void)snprintf(message, sizeof(message), "%s",
                   db->connection ? PQerrorMessage(db->connection) : "not connected");
    cv_redact(message);
    cv_db_drop(db);
    return cv_fail(error, CV_ERROR_CONNECTION, "the connection to the database is lost: %s",
                   message);
}

static int send_listen(struct cv_db *db, const char *channel, struct cv_error *error)
{
    if (!cv_db_is_connected(db)) {
        return cv_db_fail_connection(db, error);
    }
    char *quoted = PQescapeIdentifier(db->connection, channel, strlen(channel));
    if (!quoted) {
        return cv_fail(error, CV_ERROR_INTERNAL, "%s is not a valid name of a channel", channel);
    }
    char statement[160];
    int length = snprintf(statement, sizeof(statement), "LISTEN %s", quoted);
    PQfreemem(quoted);
    if (length < 0 || (size_t)length >= sizeof(statement)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "the name of a channel is too long");
    }
    return cv_db_script(db, statement, error);
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
            return cv_fail(error, CV_ERROR_CANCELED, "canceled while connecting to the database");
        }
        if (result) {
            return result;
        }
        status = PQconnectPoll(connection);
    }
    return 0;
}

static void log_notice(void *unused, const char *message)
{
    (void)unused;
    cv_log(CV_LOG_DEBUG, "database: %s", message);
}

/* A password may have been changed since the last connection. */
static int read_conninfo(struct cv_db *db, struct cv_error *error)
{
    cv_auto_free char *now = NULL;
    CV_TRY(cv_setting_read("DATABASE_URL", &now, error));
    CV_TRY(now ? 0 : copy_text(&now, "", error));
    free(db->conninfo);
    db->conninfo = cv_take(now);
    db->is_of_environment = true;
    return 0;
}

/* Connects once and repeats every LISTEN. The caller has closed the previous connection. */
static int try_connect(struct cv_db *db, int64_t timeout_ms, struct cv_error *error)
{
    /* The connection text (dbname) overrides the keywords before it; those after it override the text. */
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
    CV_TRY_MEMORY(connection, error, "a connection");
    (void)PQsetNoticeProcessor(connection, log_notice, NULL);
    (void)PQsetErrorVerbosity(connection, PQERRORS_VERBOSE);
    CV_TRY(poll_connection(db, connection, timeout_ms, error));
    if (PQsetnonblocking(connection, 1)) {
        return cv_fail(error, CV_ERROR_CONNECTION, "cannot make the connection non-blocking");
    }
    db->connection = cv_take(connection);
    for (size_t i = 0; i < db->channel_count; i++) {
        int result = send_listen(db, db->channels[i], error);
        if (result) {
            cv_db_drop(db);
            return result;
        }
    }
    return 0;
}

int cv_db_open(const struct cv_db_params *params, struct cv_db **ret_db, struct cv_error *error)
{
    cv_auto(cv_db_close) struct cv_db *db = calloc(1, sizeof(*db));
    CV_TRY_MEMORY(db, error, "a connection");
    db->cancel = params->cancel;
    db->connect_timeout_ms =
        params->connect_timeout_ms ? params->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    db->statement_timeout_ms =
        params->statement_timeout_ms ? params->statement_timeout_ms : STATEMENT_TIMEOUT_MS;

    const char *name = params->application_name ? params->application_name : "cortana";
    CV_TRY(params->conninfo ? copy_text(&db->conninfo, params->conninfo, error)
                            : read_conninfo(db, error));
    CV_TRY(check_conninfo(db->conninfo, error));
    CV_TRY(copy_text(&db->application_name, name, error));
    CV_TRY(params->patience_ms ? cv_db_reconnect(db, params->patience_ms, error)
                               : try_connect(db, db->connect_timeout_ms, error));
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

void cv_db_set_statement_timeout(struct cv_db *db, int64_t statement_timeout_ms)
{
    db->statement_timeout_ms = statement_timeout_ms;
}

bool cv_db_is_open(struct cv_db *db)
{
    enum { LOOKS = 3 }; /* its last message, the end behind it, and a spare one */
    for (int i = 0; i < LOOKS && cv_db_is_connected(db); i++) {
        struct pollfd socket = {.fd = PQsocket(db->connection), .events = POLLIN};
        if (poll(&socket, 1, 0) != 1) {
            break;
        }
        (void)PQconsumeInput(db->connection);
    }
    return cv_db_is_connected(db);
}

static bool may_come_back(const struct cv_error *error)
{
    return error->type == CV_ERROR_CONNECTION || error->type == CV_ERROR_THROTTLED ||
           error->type == CV_ERROR_SERVER || error->type == CV_ERROR_TIMEOUT;
}

int cv_db_port(const struct cv_db *db)
{
    const char *host = PQhost(db->connection), *port = PQport(db->connection);
    int64_t number = 0;
    bool is_local = !host || host[0] == '/' || host[0] == '@';
    return !is_local && port && cv_parse_int(port, 1, UINT16_MAX, &number) ? (int)number : 0;
}

int cv_db_reconnect(struct cv_db *db, int64_t timeout_ms, struct cv_error *error)
{
    if (cv_db_is_connected(db)) {
        return 0;
    }
    cv_db_drop(db);
    int64_t deadline = cv_monotonic_ms() + timeout_ms;
    for (int tries = 0;; tries++) {
        int64_t left = deadline - cv_monotonic_ms();
        int64_t one_try = left < db->connect_timeout_ms ? left : db->connect_timeout_ms;
        int result = db->is_of_environment ? read_conninfo(db, error) : 0;
        result = result ? result : try_connect(db, one_try > 1 ? one_try : 1, error);
        if (result == 0 || !may_come_back(error)) {
            return result;
        }
        int64_t pause = cv_pause_ms(tries, FIRST_PAUSE_MS, PAUSE_MOST_MS);
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
            return cv_fail(error, CV_ERROR_CANCELED, "canceled while the database was away");
        }
    }
}

/* ---- notifications --------------------------------------------------------------------------- */

int cv_db_listen(struct cv_db *db, const char *channel, struct cv_error *error)
{
    for (size_t i = 0; i < db->channel_count; i++) {
        if (strcmp(db->channels[i], channel) == 0) {
            return 0;
        }
    }
    cv_auto_free char *name = strdup(channel);
    CV_TRY_MEMORY(name && CV_MAKE_ROOM(db->channels, db->channel_count), error, "a channel");
    CV_TRY(send_listen(db, channel, error));
    db->channels[db->channel_count++] = cv_take(name);
    return 0;
}

int cv_db_fd(const struct cv_db *db)
{
    return db->connection ? PQsocket(db->connection) : -1;
}

int cv_db_notification(struct cv_db *db, char **ret_channel, char **ret_payload,
                       struct cv_error *error)
{
    if (!cv_db_is_connected(db)) {
        return cv_db_fail_connection(db, error);
    }
    if (!PQconsumeInput(db->connection)) {
        return cv_db_fail_connection(db, error);
    }
    cv_auto(PQfreemem) PGnotify *notification = PQnotifies(db->connection);
    if (!notification) {
        return 0;
    }
    cv_auto_free char *channel = strdup(notification->relname);
    cv_auto_free char *payload = strdup(notification->extra);
    CV_TRY_MEMORY(channel && payload, error, "a notification");
    *ret_channel = cv_take(channel);
    *ret_payload = cv_take(payload);
    return 1;
}

/* ---- for other programs ------------------------------------------------------------------------ */

int cv_db_renew(struct cv_db *db, int64_t timeout_ms, struct cv_error *error)
{
    cv_db_drop(db);
    return cv_db_reconnect(db, timeout_ms, error);
}

int cv_db_environment(const struct cv_db *db, char ***ret_environment, struct cv_error *error)
{
    cv_auto(PQconninfoFree) PQconninfoOption *options = PQconninfo(db->connection);
    size_t count = 0;
    while (options && options[count].keyword) {
        count++;
    }
    cv_auto(cv_db_environment_free) char **environment = calloc(count + 1, sizeof(*environment));
    CV_TRY_MEMORY(options && environment, error, "an environment");
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (options[i].envvar && options[i].val && options[i].val[0]) {
            CV_TRY(
                cv_format(&environment[used++], error, "%s=%s", options[i].envvar, options[i].val));
        }
    }
    *ret_environment = cv_take(environment);
    return 0;
}

void cv_db_environment_free(char **environment)
{
    for (size_t i = 0; environment && environment[i]; i++) {
        explicit_bzero(environment[i], strlen(environment[i]));
        free(environment[i]);
    }
    free(environment);
}
