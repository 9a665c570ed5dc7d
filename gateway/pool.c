#include "gateway/pool.h"

#include "common/export/export.h"

#include "gateway/audit.h"
#include "gateway/caller.h"
#include "gateway/exchange.h"
#include "gateway/password.h"
#include "gateway/provider.h"
#include "gateway/response.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum {
    RECONNECT_MS = 1000, /* a request does not wait longer than this */
    /* How long a statement may take beyond its operation's time limit, at which the server itself ends
     * it: a server that has not answered by then is silent. */
    SILENCE_MS = 2 * 1000,
    REPEATS_AFTER_CONFLICT = 1, /* repeats of reads, and of changes with a condition */
    /* Outcomes of the parts of a transaction. */
    REFUSED = 1, /* the exchange has been refused */
    ANSWERED = 2,
};

struct pool {
    struct pool_params params;
    atomic_bool is_ready;
    struct exchange_queue queue;
};

/* ---- one request ------------------------------------------------------------------------------- */

#define SETTINGS_SQL                                                                              \
    "SELECT set_config('transaction_read_only', $1, true), set_config('request.jwt.claims', $2, " \
    "true),"                                                                                      \
    " set_config('request.id', $3, true), set_config('statement_timeout', $4, true),"             \
    " set_config('request.hide_payloads', $6, true), set_config('role', $5, true)"

/* Makes the first row the answer. */
static int read_answer(struct exchange *exchange, const struct cv_db_result *rows,
                       struct cv_error *error)
{
    struct answer *answer = &exchange->answer;
    const char *body = cv_db_text(rows, 0, "body");
    const char *etag = cv_db_text(rows, 0, "etag");
    const char *headers = cv_db_text(rows, 0, "headers");
    char *text = NULL;
    if (body && exchange->operation->is_redacted) {
        CV_TRY(cv_redacted_text(body, &text, error));
    } else if (body) {
        text = strdup(body);
    }
    answer_set_body(answer, text);
    answer->status = (unsigned)cv_db_int(rows, 0, "status", 500);
    answer->headers = headers ? json_loads(headers, JSON_REJECT_DUPLICATES, NULL) : NULL;
    CV_TRY_MEMORY((!body || text) && (!headers || answer->headers), error, "an answer");
    (void)snprintf(answer->etag, sizeof(answer->etag), "%s", etag ? etag : "");
    return 0;
}

struct spool {
    int fd;
    size_t length;
    bool is_full;
};

static int write_spool(void *opaque, const char *text, size_t length, struct cv_error *error)
{
    struct spool *spool = opaque;
    if (cv_write_all(spool->fd, text, length)) {
        spool->is_full = true;
        return cv_fail_errno(error, errno, "cannot write an export");
    }
    spool->length += length;
    return 0;
}

/* Makes a file without a name; -1 and errno on failure. */
static int make_file(void)
{
    char path[512];
    int length = snprintf(path, sizeof(path), "%s/cortana-export-XXXXXX", cv_env("TMPDIR", "/tmp"));
    if (length >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        (void)unlink(path);
    }
    return fd;
}

static void refuse_room(struct exchange *exchange, const struct cv_error *error)
{
    cv_log_error(error, "the file of an export (TMPDIR says where it is written)");
    exchange_refuse(exchange, REFUSE_NO_ROOM,
                    "try again when other exports are over, or export less");
}

/* Reads the lines that the operation allows, in the caller's own transaction, into an unnamed file.
 * So memory is limited, a failure can still be reported, and a slow reader does not block a
 * database connection. */
static int write_export(struct cv_db *db, struct exchange *exchange, const char *values,
                        struct cv_error *error)
{
    struct answer *answer = &exchange->answer;
    cv_auto_fd int fd = make_file();
    struct spool spool = {.fd = fd};
    struct cv_export_params params = {
        .bom = json_is_true(json_object_get(exchange->values, "bom")),
        .no_positions = json_is_false(json_object_get(exchange->values, "positions")),
        .source = json_string_value(json_object_get(exchange->values, "source")),
        .write = write_spool,
        .opaque = &spool};
    const char *format = json_string_value(json_object_get(exchange->values, "format"));
    const char *video = json_string_value(json_object_get(exchange->values, "id"));
    if (!format || !cv_export_format_of(format, &params.format)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "an export without a format");
    }
    int result = fd < 0  ? cv_fail_errno(error, errno, "cannot make a file")
                 : video ? cv_export_video(db, video, &params, error)
                         : cv_export_hits(db, values, &params, error);
    if (result != 0 && (fd < 0 || spool.is_full)) {
        refuse_room(exchange, error);
        return REFUSED;
    }
    if (result == 0) {
        answer->length = spool.length;
        answer->fd = cv_take_fd(&fd);
        answer->has_fd = true;
        answer->content_type = cv_export_media_type(params.format);
    }
    return result;
}

/* Begins a session for somebody who was let in. 0, or REFUSED: the exchange has its answer. */
static int begin_session(struct cv_db *db, struct exchange *exchange, struct cv_error *error)
{
    cv_auto_free char *entry = json_dumps(exchange->entry, JSON_COMPACT);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY_MEMORY(entry, error, "a session");
    CV_TRY(cv_db_run(db, &rows, error, "SELECT api.enter($1::jsonb)::text AS session", entry));
    return admission_accept_session(exchange, cv_db_text(rows, 0, "session")) ? 0 : REFUSED;
}

/* Looks up the exchange's API key or session. 0, or REFUSED: the exchange has its answer. */
static int find_key(struct cv_db *db, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error,
                     "SELECT api.use_key(decode($1, 'hex'), $2::inet)::text AS claims",
                     exchange->principal.key_digest, exchange->address));
    if (!admission_accept_key(exchange, cv_db_text(rows, 0, "claims"))) {
        CV_TRY(REFUSED);
    }
    return 0;
}

/* Whether the same Idempotency-Key was used before. 0: no; ANSWERED: yes, with this answer;
 * REFUSED. */
static int begin_once(struct cv_db *db, struct exchange *exchange, struct cv_error *error)
{
    cv_auto_free char *request = NULL;
    cv_auto_free char *values = json_dumps(exchange->values, JSON_COMPACT | JSON_SORT_KEYS);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_format(&request, error, "%s %s", exchange->operation->name, values ? values : ""));
    CV_TRY(cv_db_run(db, &rows, error, "SELECT * FROM api.begin_once($1, $2, $3)",
                     exchange->principal.name, exchange->once_key, request));
    const char *outcome = cv_db_text(rows, 0, "outcome");
    if (!outcome || strcmp(outcome, "new") == 0) {
        return 0;
    }
    exchange->is_recorded = true;
    if (strcmp(outcome, "again") == 0) {
        CV_TRY(read_answer(exchange, rows, error));
        return ANSWERED;
    }
    exchange_refuse(exchange, REFUSE_IDEMPOTENCY_KEY,
                    "this Idempotency-Key came with another request before: a new "
                    "request has a new key");
    return REFUSED;
}

/* Records a change: the answer for its Idempotency-Key, and the row in the audit log. */
static int end_write(struct cv_db *db, const struct exchange *exchange, struct cv_error *error)
{
    const struct answer *answer = &exchange->answer;
    cv_auto_free char *row = audit_row(exchange);
    cv_auto_free char *headers = answer->headers ? json_dumps(answer->headers, JSON_COMPACT) : NULL;
    CV_TRY_MEMORY(row, error, "the audit log");
    CV_TRY(cv_db_run(db, NULL, error, "SELECT set_config('role', 'none', true)"));
    CV_TRY(cv_db_run(db, NULL, error, "SELECT api.record($1::jsonb)", row));
    if (exchange->once_key) {
        CV_TRY(cv_db_run(db, NULL, error,
                         "SELECT api.end_once($1, $2, $3::int, $4::jsonb, $5::jsonb)",
                         exchange->principal.name, exchange->once_key,
                         cv_db_number(answer->status).text, headers, answer->body));
    }
    return 0;
}

/* Compares the current version with If-Match. 0, or REFUSED. If others change it after this check,
 * the change itself fails, because both use the same snapshot; the repeat then sees the new
 * version. */
static int check_version(struct cv_db *db, struct exchange *exchange, const char *values,
                         struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(db, &rows, error, exchange->operation->version_sql, values);
    const char *etag = result ? NULL : cv_db_text(rows, 0, "etag");
    if (result || (etag && response_is_named(exchange->if_match, etag))) {
        return result;
    }
    exchange_refuse(exchange, REFUSE_CHANGED,
                    "read it again, and send the change with the ETag that it has "
                    "now in If-Match, if the change is still wanted");
    return REFUSED;
}

/* The settings that start a transaction as the caller. */
#define SETTINGS_OF(pool, exchange)                                                  \
    CV_DB_STATEMENT(SETTINGS_SQL, (exchange)->access == ACCESS_WRITE ? "off" : "on", \
                    (exchange)->principal.claims, (exchange)->id,                    \
                    cv_db_number((exchange)->operation->time_limit_ms).text,         \
                    (exchange)->principal.database_role,                             \
                    (pool)->params.hides_payloads ? "on" : "off")

/* Runs a read with a token in as few round trips as possible: each costs more than the gateway's
 * own work for the request. */
static int run_read(const struct pool *pool, struct cv_db *db, struct exchange *exchange,
                    const char *values, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_query_after(db, SETTINGS_OF(pool, exchange),
                             CV_DB_STATEMENT(exchange->operation->sql, values), &rows, error));
    return read_answer(exchange, rows, error);
}

/* Runs the transaction. 0, or REFUSED: the exchange has its answer. */
static int run_transaction(const struct pool *pool, struct cv_db *db, struct exchange *exchange,
                           const char *values, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_begin(db, error));
    if (exchange->if_match) {
        CV_TRY(cv_db_run(db, NULL, error, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"));
    }
    if (*exchange->at == STEP_ENTER && exchange->entry) {
        CV_TRY(begin_session(db, exchange, error));
    } else if (exchange->principal.key_digest[0]) {
        CV_TRY(find_key(db, exchange, error));
    }
    int begun = exchange->once_key ? begin_once(db, exchange, error) : 0;
    if (begun == ANSWERED) {
        return cv_db_commit(db, error);
    }
    CV_TRY(begun);
    CV_TRY(cv_db_query(db, SETTINGS_OF(pool, exchange), NULL, error));
    if (exchange->if_match) {
        CV_TRY(check_version(db, exchange, values, error));
    }
    CV_TRY(cv_db_run(db, &rows, error, exchange->operation->sql, values));
    CV_TRY(read_answer(exchange, rows, error));
    if (*exchange->at == STEP_EXPORT) {
        CV_TRY(write_export(db, exchange, values, error));
    }
    if (exchange->access == ACCESS_WRITE) {
        CV_TRY(end_write(db, exchange, error));
    }
    CV_TRY(cv_db_commit(db, error));
    exchange->is_recorded |= exchange->access == ACCESS_WRITE;
    return 0;
}

static bool is_conflict(const char *sqlstate)
{
    return strcmp(sqlstate, "40001") == 0 || strcmp(sqlstate, "40P01") == 0;
}

static void refuse_unavailable(struct exchange *exchange)
{
    exchange_refuse(exchange, REFUSE_DATABASE_AWAY, "try again in a moment");
}

/* Looks up the key of a request that is refused in any case: only a caller with a valid key is told
 * why. */
static void confirm_key(struct cv_db *db, struct exchange *exchange)
{
    struct cv_error error;
    struct answer refusal = exchange->answer;
    exchange->answer = (struct answer){0};
    int result = cv_db_begin(db, &error);
    result = result ? result : find_key(db, exchange, &error);
    result = result ? result : cv_db_commit(db, &error);
    if (result == 0) {
        exchange->answer = refusal;
        return;
    }
    if (result != REFUSED) {
        exchange_refuse_sqlstate(exchange, cv_db_sqlstate(db), error.message,
                                 cv_db_error_column(db));
    }
    cv_db_rollback(db);
    answer_deinit(&refusal);
}

/* Does a step that is no transaction of the operation's. */
static void run_alone(struct cv_db *db, struct exchange *exchange)
{
    switch (*exchange->at) {
    case STEP_PASSWORD:
        password_do(db, exchange);
        return;
    case STEP_PROVIDER:
        provider_find(db, exchange);
        return;
    default:
        confirm_key(db, exchange);
    }
}

static void run(const struct pool *pool, struct cv_db *db, struct exchange *exchange)
{
    struct cv_error error;
    cv_auto_free char *values = json_dumps(exchange->values, CV_JSON_KEPT);
    int64_t begun_ms = cv_monotonic_ms();
    int64_t limit_ms = exchange->operation->time_limit_ms;
    bool is_refused = *exchange->at == STEP_CONFIRM;
    bool is_write = exchange->access == ACCESS_WRITE;
    bool is_plain_read =
        !is_write && !exchange->principal.key_digest[0] && *exchange->at == STEP_DATABASE;
    if ((!values && !is_refused) ||
        (!cv_db_is_open(db) && cv_db_reconnect(db, RECONNECT_MS, &error) != 0)) {
        refuse_unavailable(exchange);
        return;
    }
    cv_db_set_statement_timeout(db, limit_ms + SILENCE_MS);
    if (is_refused || *exchange->at == STEP_PASSWORD || *exchange->at == STEP_PROVIDER) {
        run_alone(db, exchange);
        return;
    }
    for (int i = 0;; i++) {
        char sqlstate[8];
        int result = is_plain_read ? run_read(pool, db, exchange, values, &error)
                                   : run_transaction(pool, db, exchange, values, &error);
        if (result == 0) {
            return;
        }
        (void)snprintf(sqlstate, sizeof(sqlstate), "%s", cv_db_sqlstate(db));
        cv_db_rollback(db);
        if (result == REFUSED) {
            return;
        }
        bool may_repeat = !is_write || exchange->if_match;
        bool is_lost = !cv_db_is_connected(db) && !is_write && i == 0 &&
                       cv_monotonic_ms() - begun_ms < limit_ms;
        if (is_lost &&
            cv_db_reconnect(db, RECONNECT_MS, &error) == 0) { /* it died without a word */
            answer_deinit(&exchange->answer);
            continue;
        }
        if (!is_conflict(sqlstate) || !may_repeat || i == REPEATS_AFTER_CONFLICT) {
            exchange_refuse_sqlstate(exchange, sqlstate, error.message, cv_db_error_column(db));
            break;
        }
        answer_deinit(&exchange->answer);
    }
    if (exchange->answer.status >= 500) {
        char what[128];
        (void)snprintf(what, sizeof(what), "request %s, %s", exchange->id,
                       exchange->operation->name);
        cv_log_error(&error, what);
    }
}

/* ---- threads ----------------------------------------------------------------------------------- */

static void *run_thread(void *opaque)
{
    struct pool *pool = opaque;
    struct cv_db *db = NULL;
    struct cv_error error;
    const struct cv_db_params params = {.application_name = "api-gateway",
                                        .cancel = pool->params.cancel,
                                        .connect_timeout_ms = RECONNECT_MS};
    for (struct exchange *exchange; (exchange = exchange_queue_wait(&pool->queue));) {
        if (!pool->is_ready || (!db && cv_db_open(&params, &db, &error) != 0)) {
            refuse_unavailable(exchange);
        } else {
            run(pool, db, exchange);
        }
        pool->params.on_answer(exchange);
    }
    cv_db_close(db);
    return NULL;
}

int pool_start(const struct pool_params *params, struct pool **ret_pool, struct cv_error *error)
{
    cv_auto_free struct pool *pool = calloc(1, sizeof(*pool));
    CV_TRY_MEMORY(pool, error, "database threads");
    pool->params = *params;
    CV_TRY(exchange_queue_start(&pool->queue, params->connections, run_thread, pool, error));
    *ret_pool = cv_take(pool);
    return 0;
}

void pool_stop(struct pool *pool)
{
    if (pool) {
        exchange_queue_stop(&pool->queue);
        exchange_queue_deinit(&pool->queue);
        free(pool);
    }
}

void pool_set_ready(struct pool *pool, bool is_ready)
{
    pool->is_ready = is_ready;
}

bool pool_add(struct pool *pool, struct exchange *exchange)
{
    return exchange_queue_add(&pool->queue, exchange);
}

/* ---- threads of the store -------------------------------------------------------------------- */

enum {
    STORE_THREADS = 4, /* of each kind */
    /* How long a request waits for a bucket, in the queue and for its answer. A piece of 256 KiB, and
     * the request for it, take milliseconds. */
    STORE_PATIENCE_MS = 15 * 1000,
};

/* Writes have threads of their own, so that no read waits for them: a bucket may take minutes to join
 * the parts of an upload. */
struct store_threads {
    struct store_pool *pool;
    struct exchange_queue queue;
};

struct store_pool {
    struct store_pool_params params;
    struct store_threads reads, writes;
    pthread_mutex_t mutex; /* protects `here` */
    struct cv_store *here; /* the store of store_pool_do; NULL before its first call */
};

static void open_store(const struct store_pool *pool, struct cv_store **store)
{
    struct cv_error error;
    if (*store) {
        return;
    }
    if (cv_store_open(NULL, store, &error) == 0) {
        cv_store_set_cancel(*store, pool->params.cancel);
    } else {
        cv_log_error(&error, "the store cannot be opened");
        *store = NULL;
    }
}

static void *run_store_thread(void *opaque)
{
    struct store_threads *threads = opaque;
    const struct store_pool *pool = threads->pool;
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    for (struct exchange *exchange; (exchange = exchange_queue_wait(&threads->queue));) {
        open_store(pool, &store);
        if (store) {
            cv_store_set_deadline(store, *exchange->at == STEP_UPLOAD_JOIN
                                             ? INT64_MAX
                                             : exchange->queued_ms + STORE_PATIENCE_MS);
        }
        pool->params.work(store, exchange);
        pool->params.on_done(exchange);
    }
    return NULL;
}

static int start_store_threads(struct store_threads *threads, struct store_pool *pool,
                               struct cv_error *error)
{
    threads->pool = pool;
    return exchange_queue_start(&threads->queue, STORE_THREADS, run_store_thread, threads, error);
}

int store_pool_start(const struct store_pool_params *params, struct store_pool **ret_pool,
                     struct cv_error *error)
{
    struct store_pool *pool = calloc(1, sizeof(*pool));
    CV_TRY_MEMORY(pool, error, "the store's threads");
    pool->params = *params;
    (void)pthread_mutex_init(&pool->mutex, NULL);
    int result = start_store_threads(&pool->reads, pool, error);
    if (result == 0 && (result = start_store_threads(&pool->writes, pool, error)) != 0) {
        exchange_queue_stop(&pool->reads.queue);
        exchange_queue_deinit(&pool->reads.queue);
    }
    if (result) {
        (void)pthread_mutex_destroy(&pool->mutex);
        free(pool);
        return result;
    }
    *ret_pool = pool;
    return 0;
}

void store_pool_stop(struct store_pool *pool)
{
    if (pool) {
        exchange_queue_stop(&pool->reads.queue);
        exchange_queue_stop(&pool->writes.queue);
    }
}

void store_pool_free(struct store_pool *pool)
{
    if (pool) {
        exchange_queue_deinit(&pool->reads.queue);
        exchange_queue_deinit(&pool->writes.queue);
        cv_store_close(pool->here);
        (void)pthread_mutex_destroy(&pool->mutex);
        free(pool);
    }
}

bool store_pool_add(struct store_pool *pool, struct exchange *exchange)
{
    return exchange_queue_add(
        exchange->access == ACCESS_WRITE ? &pool->writes.queue : &pool->reads.queue, exchange);
}

bool store_pool_do(struct store_pool *pool, struct exchange *exchange)
{
    if (pthread_mutex_trylock(&pool->mutex) != 0) {
        return false;
    }
    open_store(pool, &pool->here);
    bool is_done = pool->here && cv_store_directory(pool->here);
    if (is_done) {
        pool->params.work(pool->here, exchange);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return is_done;
}
