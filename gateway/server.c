#include "gateway/server.h"

#include "gateway/agents.h"
#include "gateway/assets.h"
#include "gateway/audit.h"
#include "gateway/caller.h"
#include "gateway/media.h"
#include "gateway/polls.h"
#include "gateway/provider.h"
#include "gateway/request.h"
#include "gateway/response.h"
#include "gateway/upload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum {
    THREADS = 2,
    HEADER_MS = 10 * 1000,
    IDLE_MS = 75 * 1000, /* time between requests, including the header of the next one */
    TRANSFER_MS = 30 * 1000,
    TRANSFER_BYTES_A_MS = 1, /* 1 KiB/s, beyond TRANSFER_MS */
    CONNECTION_BYTES = 16 * 1024,
    TARGET_MAX_BYTES = 8 * 1024,
    FINISH_MS = 10 * 1000, /* time limit of the statement that ends an upload */
};

/* A client's connection, and the time at which it is closed unless it makes progress. */
struct client {
    struct client *next, *previous;
    int fd;
    int64_t deadline_ms; /* INT64_MAX: it waits for the gateway */
};

struct server {
    struct server_params params;
    struct MHD_Daemon *daemon;
    atomic_int under_way;

    pthread_mutex_t mutex; /* protects the list and its deadlines */
    struct client *clients;
    struct polls polls;
};

static const struct cv_metric requests_total = CV_COUNTER(
    "cortana_api_requests_total", "Requests that were answered.", "route", "method", "status");
static const double seconds_bounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
static const struct cv_metric request_seconds =
    CV_HISTOGRAM("cortana_api_request_seconds", "Time from a request's header to its answer.",
                 seconds_bounds, "route");
/* ---- clients ----------------------------------------------------------------------------------- */

static void set_deadline(struct exchange *exchange, int64_t deadline_ms)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct client *client = info ? info->socket_context : NULL;
    if (client) {
        (void)pthread_mutex_lock(&exchange->server->mutex);
        client->deadline_ms = deadline_ms;
        (void)pthread_mutex_unlock(&exchange->server->mutex);
    }
}

static int64_t transfer_deadline(size_t bytes)
{
    return cv_monotonic_ms() + TRANSFER_MS + (int64_t)bytes / TRANSFER_BYTES_A_MS;
}

/* Closes the connection if the bytes have not arrived, or not been sent, in their time. */
static void expect_bytes(struct exchange *exchange, size_t bytes)
{
    set_deadline(exchange, transfer_deadline(bytes));
}

static void on_connection(void *opaque, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct server *server = opaque;
    struct client *client = *context;
    CV_LOCK(&server->mutex);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        client = info ? calloc(1, sizeof(*client)) : NULL;
        if (client) {
            *client = (struct client){server->clients, NULL, info->connect_fd,
                                      cv_monotonic_ms() + HEADER_MS};
            if (server->clients) {
                server->clients->previous = client;
            }
            server->clients = client;
        } else if (info) {
            (void)shutdown(info->connect_fd, SHUT_RDWR); /* no memory for its deadline */
        }
        *context = client;
    } else if (client) {
        *(client->previous ? &client->previous->next : &server->clients) = client->next;
        if (client->next) {
            client->next->previous = client->previous;
        }
        free(client);
        *context = NULL;
    }
}

/* The library's own time-out starts again with every byte: single bytes would keep it open. */
void server_close_late(struct server *server)
{
    int64_t now = cv_monotonic_ms();
    CV_LOCK(&server->mutex);
    for (struct client *client = server->clients; client; client = client->next) {
        if (client->deadline_ms < now) {
            (void)shutdown(client->fd, SHUT_RDWR);
        }
    }
}

/* ---- answers ------------------------------------------------------------------------------------ */

static const enum step sent[] = {STEP_SEND};

static void count(const struct exchange *exchange, const char *method)
{
    char status[16];
    const char *route = exchange->operation ? exchange->operation->name : "none";
    (void)snprintf(status, sizeof(status), "%u", exchange->answer.status);
    cv_metric_add(exchange->server->params.metrics, &requests_total,
                  CV_LABELS(route, exchange->operation ? method : "other", status), 1);
    cv_metric_observe(exchange->server->params.metrics, &request_seconds, CV_LABELS(route),
                      (double)(cv_monotonic_ms() - exchange->began_ms) / 1000);
}

/* Records in the audit log what was refused, and what the gateway has done without the database. */
static void record_in_audit(const struct exchange *exchange)
{
    unsigned status = exchange->answer.status;
    if (exchange->operation && exchange->operation != &media_operation && !exchange->is_recorded &&
        (exchange->access == ACCESS_WRITE || status == 401 || status == 403 || status == 429)) {
        audit_record(exchange->server->params.audit, exchange);
    }
}

/* Frees the request of a stream, because a stream lasts for minutes and does not need it. */
static void forget_request(struct exchange *exchange)
{
    response_forget_body(&exchange->answer);
    json_decref(exchange->values);
    exchange->values = NULL;
    cv_buffer_deinit(&exchange->body);
    principal_deinit(&exchange->principal);
}

/* Has a store thread read the next piece of an answer that passes through. */
static bool hand_to_relay(struct exchange *exchange)
{
    static const enum step relayed[] = {STEP_RELAY, STEP_SEND};
    exchange->at = relayed;
    MHD_suspend_connection(exchange->connection);
    if (store_pool_add(exchange->server->params.store_pool, exchange)) {
        return true;
    }
    MHD_resume_connection(exchange->connection);
    return false;
}

static enum MHD_Result queue_answer(struct exchange *exchange, const char *method)
{
    struct answer *answer = &exchange->answer;
    if (response_is_known(exchange)) {
        answer->status = 304;
        response_forget_body(answer);
    }
    count(exchange, method);
    session_record(exchange->server->params.session, exchange);
    record_in_audit(exchange);
    agents_answer(exchange);
    struct MHD_Response *response = response_is_stream(exchange)
                                        ? events_respond(exchange->server->params.events, exchange)
                                    : answer->relay ? relay_respond(exchange, hand_to_relay)
                                                    : response_make(answer);
    if (!response) {
        return MHD_NO;
    }
    /* A stream sends nothing most of the time; the library closes one whose client does not read. */
    set_deadline(exchange,
                 response_is_stream(exchange) ? INT64_MAX : transfer_deadline(answer->length));
    enum MHD_Result result =
        response_add_headers(response, exchange)
            ? MHD_queue_response(exchange->connection, answer->status, response)
            : MHD_NO;
    MHD_destroy_response(response);
    if (response_is_stream(exchange)) {
        forget_request(exchange);
    }
    return result;
}

/* ---- requests ----------------------------------------------------------------------------------- */

/* Chooses the operation of a request by its header, or refuses the request. */
static void begin(struct exchange *exchange, const char *method, const char *version)
{
    exchange->began_ms = cv_monotonic_ms();
    exchange->server->under_way++;
    request_begin(exchange, method, version);
    exchange->at = exchange->answer.status ? sent : exchange->operation->steps;
}

/* Stores received bytes of a body; false: more than is read for a request that is refused anyway. */
static bool store_body(struct exchange *exchange, const char *data, size_t length)
{
    exchange->received += length;
    if (*exchange->at == STEP_UPLOAD_WRITE) {
        if (exchange->body.length == 0) {
            expect_bytes(exchange, UPLOAD_PIECE_BYTES);
        }
        cv_buffer_append(&exchange->body, data, length);
        return true;
    }
    if (exchange->received > BODY_MAX_BYTES || !exchange->operation ||
        exchange->operation->takes_bytes) {
        exchange->is_body_dropped = true;
        cv_buffer_clear(&exchange->body);
    }
    if (!exchange->is_body_dropped) {
        cv_buffer_append(&exchange->body, data, length);
    }
    return exchange->received <= DISCARDED_MAX_BYTES;
}

static void check_form(struct exchange *exchange)
{
    request_check_form(exchange);
    expect_bytes(exchange, (size_t)request_length(exchange));
}

/* Goes on with what follows when all bytes of an upload are stored. */
static void finish_upload(struct exchange *exchange)
{
    static const struct operation operation = {
        .name = "finish_upload",
        .method = "POST",
        .sql = "SELECT status, etag, headers, body FROM api.finish_upload($1::jsonb)",
        .time_limit_ms = FINISH_MS,
    };
    answer_deinit(&exchange->answer);
    exchange->operation = &operation;
    exchange->once_key = NULL; /* its answer is recorded already */
}

/* ---- the steps ----------------------------------------------------------------------------------- */

/* What follows a refusal: the answer, unless the caller's API key has not been looked up. */
static const enum step confirmed_after_body[] = {STEP_BODY, STEP_CONFIRM, STEP_SEND};

/* How each step is done: by a function of the server, at once; by a thread of the database; or by a
 * thread of the store, with a function. What has none of these is done by the library. */
static const struct action {
    void (*run)(struct exchange *exchange);
    bool asks_database;
    /* Answers; a failure is answered by exchange_refuse_store. */
    int (*work)(struct cv_store *store, struct exchange *exchange, struct cv_error *error);
    bool is_of_body; /* it lasts until bytes of the body, or its end, have arrived */
    const enum step
        *if_refused; /* what follows if the key must be looked up first; NULL: STEP_SEND */
} actions[STEP_COUNT] = {
    [STEP_ADMIT] = {.run = admission_check},
    [STEP_ADMIT_NEWCOMER] = {.run = admission_check},
    [STEP_CONDITIONS] = {.run = request_check_conditions, .if_refused = confirmed_after_body},
    [STEP_LENGTH] = {.run = request_check_length},
    [STEP_FORM] = {.run = check_form, .if_refused = confirmed_after_body},
    [STEP_BODY] = {.is_of_body = true},
    [STEP_BYTES] = {.is_of_body = true},
    [STEP_CHECK] = {.run = request_check_parameters, .if_refused = confirmed_after_body + 1},
    [STEP_DOCUMENT] = {.run = request_answer_document},
    [STEP_PAGE] = {.run = request_answer_document},
    [STEP_TUS] = {.run = upload_answer_options},
    [STEP_SECRETS] = {.run = admission_read_secrets},
    [STEP_SIGN_OUT] = {.run = admission_sign_out},
    [STEP_LAST_EVENT] = {.run = request_read_header},
    [STEP_OFFSET] = {.run = request_read_header},
    [STEP_ROOM] = {.run = upload_check_room, .if_refused = confirmed_after_body + 1},
    [STEP_GRANTS] = {.run = media_fill_grants},
    [STEP_FEED] = {.run = answer_become_feed},
    [STEP_LIMIT_LINKS] = {.run = admission_limit_links},
    [STEP_SITE] = {.run = assets_name_site},
    [STEP_SHARED] = {.run = assets_answer_shared},
    [STEP_FINISH] = {.run = finish_upload},
    [STEP_AGENT] = {.run = agents_read},
    [STEP_AGENT_NEXT] = {.run = agents_go_on},
    [STEP_DATABASE] = {.asks_database = true},
    [STEP_PASSWORD] = {.asks_database = true},
    [STEP_PROVIDER] = {.asks_database = true},
    [STEP_PROVIDER_ASK] = {.work = provider_ask},
    [STEP_PROVIDER_TAKE] = {.work = provider_take},
    [STEP_ENTER] = {.asks_database = true},
    [STEP_EXPORT] = {.asks_database = true},
    [STEP_CONFIRM] = {.asks_database = true},
    [STEP_MEDIA] = {.work = media_answer_target},
    [STEP_OBJECT] = {.work = media_answer_object},
    [STEP_REMOVE] = {.work = media_remove},
    [STEP_RELAY] = {.work = relay_read},
    [STEP_UPLOAD_SHOW] = {.work = upload_show},
    [STEP_UPLOAD_SIGN] = {.work = upload_sign_parts},
    [STEP_UPLOAD_JOIN] = {.work = upload_join},
    [STEP_UPLOAD_FORGET] = {.work = upload_forget},
    [STEP_UPLOAD_OPEN] = {.work = upload_open},
    [STEP_UPLOAD_WRITE] = {.work = upload_write, .is_of_body = true},
    [STEP_UPLOAD_CLOSE] = {.work = upload_close},
    [STEP_UPLOAD_END] = {.work = upload_end},
    [STEP_UPLOAD_TEXT] = {.work = upload_keep_text},
    [STEP_AGENT_PICTURE] = {.work = agents_add_picture},
};

void server_work(struct cv_store *store, struct exchange *exchange)
{
    struct cv_error error;
    int result = store ? actions[*exchange->at].work(store, exchange, &error) : 1;
    if (result != 0) {
        exchange_refuse_store(exchange, result < 0 ? &error : NULL);
    }
}

/* Moves on from a step that is done. The only place that decides what becomes of a refused request. */
static void advance(struct exchange *exchange)
{
    const struct action *action = &actions[*exchange->at];
    unsigned status = exchange->answer.status;
    if (status != 0 && (status < 200 || status >= 300)) {
        bool has_key = exchange->principal.key_digest[0];
        exchange->at = has_key && action->if_refused ? action->if_refused : sent;
    } else if (!action->is_of_body && *exchange->at != STEP_SEND) {
        exchange->at++;
    }
}

/* Has a thread of the database or of the store do a step; refuses the request if too many wait. */
static void hand_over(struct exchange *exchange, bool is_suspended)
{
    const struct server_params *params = &exchange->server->params;
    if (!is_suspended) {
        set_deadline(exchange, INT64_MAX);
        MHD_suspend_connection(exchange->connection);
    }
    if (actions[*exchange->at].work ? store_pool_add(params->store_pool, exchange)
                                    : pool_add(params->pool, exchange)) {
        return;
    }
    exchange_refuse(exchange, REFUSE_BUSY, "too much is under way, or the gateway is starting");
    exchange->at = sent;
    MHD_resume_connection(exchange->connection);
}

/* Walks a request through its steps until the library has to go on, or another thread. Returns whether
 * the request was suspended: it may belong to another thread already. */
static bool walk(struct exchange *exchange, bool is_suspended)
{
    for (;; advance(exchange)) {
        const struct action *action = &actions[*exchange->at];
        if (action->run) {
            action->run(exchange);
        } else if (action->is_of_body || (!action->work && !action->asks_database)) {
            if (is_suspended) {
                MHD_resume_connection(exchange->connection);
            }
            return is_suspended;
        } else if (*exchange->at != STEP_MEDIA ||
                   !store_pool_do(exchange->server->params.store_pool, exchange)) {
            hand_over(exchange, is_suspended);
            return true;
        }
    }
}

void server_go_on(struct exchange *exchange)
{
    unsigned status = exchange->answer.status;
    if (*exchange->at == STEP_DATABASE && status >= 200 && status < 300 &&
        polls_park(&exchange->server->polls, exchange)) {
        return;
    }
    advance(exchange);
    (void)walk(exchange, true);
}

/* ---- the library's calls ------------------------------------------------------------------------- */

/* Receives a piece of a body, which is dropped if the request is refused. */
static enum MHD_Result receive_piece(struct exchange *exchange, const char *data, size_t *size)
{
    if (!store_body(exchange, data, *size)) {
        return MHD_NO;
    }
    *size = 0;
    if (*exchange->at == STEP_UPLOAD_WRITE && exchange->body.length >= UPLOAD_PIECE_BYTES) {
        hand_over(exchange, false);
    }
    return MHD_YES;
}

/* Whether the body of a refused upload is read before the answer. A client that is sending it reads
 * no answer before it has sent everything, and closing a connection with unread bytes loses the
 * answer. A client that asks first whether to send (Expect: 100-continue) gets the answer at once. */
static bool awaits_part(struct exchange *exchange)
{
    int64_t bytes = request_length(exchange);
    if (!exchange->operation || !exchange->operation->takes_bytes || bytes == 0 ||
        bytes > DISCARDED_MAX_BYTES || exchange_header(exchange, "Expect")) {
        return false;
    }
    expect_bytes(exchange, (size_t)bytes);
    return true;
}

static enum MHD_Result on_request(void *opaque, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    struct exchange *exchange = *state;
    (void)opaque;
    (void)url;
    if (!exchange) {
        return MHD_NO;
    }
    if (!exchange->at) {
        exchange->connection = connection;
        begin(exchange, method, version);
        return !walk(exchange, false) && *exchange->at == STEP_SEND && !awaits_part(exchange)
                   ? queue_answer(exchange, method)
                   : MHD_YES;
    }
    bool is_of_body = actions[*exchange->at].is_of_body;
    if (is_of_body && *upload_size > 0 && *exchange->at != STEP_BYTES) {
        return receive_piece(exchange, upload, upload_size);
    }
    exchange->at += is_of_body;
    if (walk(exchange, false)) {
        return MHD_YES;
    }
    /* The library accepts no answer while a body arrives. */
    return *upload_size > 0 ? receive_piece(exchange, upload, upload_size)
                            : queue_answer(exchange, method);
}

/* ---- long polls --------------------------------------------------------------------------------- */

static void ask_again(struct exchange *exchange)
{
    while (exchange) {
        struct exchange *next = exchange->next;
        hand_over(exchange, true);
        exchange = next;
    }
}

void server_ask_again(struct server *server, struct cv_db *db)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer jobs = {0};
    cv_auto(cv_db_result_free) struct cv_db_result *ended = NULL;
    struct cv_error error;
    if (!polls_jobs(&server->polls, &jobs)) {
        return;
    }
    /* While the database is away they go on waiting, until their time is over. */
    if (db && cv_db_is_open(db) &&
        cv_db_run(db, &ended, &error, "SELECT api.ended_jobs($1::uuid[]) AS id", jobs.data) != 0) {
        cv_log_error(&error, "requests that wait for jobs");
    }
    ask_again(polls_detach(&server->polls, ended));
}

/* Copies the request's target as received; only the copy is read. The query in the library's own
 * buffer is emptied, because the library would parse it into its memory pool, and if that is full
 * it closes the connection without an answer. */
static void *on_target(void *opaque, const char *target, struct MHD_Connection *connection)
{
    cv_auto_free struct exchange *exchange = calloc(1, sizeof(*exchange));
    if (!exchange || strlen(target) > TARGET_MAX_BYTES) {
        return NULL; /* the connection is closed */
    }
    exchange->server = opaque;
    exchange->admission = exchange->server->params.admission;
    exchange->media = exchange->server->params.media;
    exchange->connection = connection;
    exchange->target = strdup(target);
    if (!exchange->target) {
        return NULL;
    }
    char *query = strchr((char *)target, '?');
    if (query) {
        query[1] = '\0';
    }
    return cv_take(exchange);
}

static void on_completed(void *opaque, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct exchange *exchange = *state;
    (void)opaque;
    (void)connection;
    (void)code;
    if (!exchange) {
        return;
    }
    set_deadline(exchange, cv_monotonic_ms() + IDLE_MS);
    if (exchange->at) {
        exchange->server->under_way--;
    }
    polls_forget(&exchange->server->polls, exchange);
    free(exchange->target);
    free(exchange->cookie);
    principal_deinit(&exchange->principal);
    cv_buffer_deinit(&exchange->body);
    upload_part_free(exchange->part);
    json_decref(exchange->values);
    mcp_call_free(exchange->call);
    json_decref(exchange->entry);
    answer_deinit(&exchange->answer);
    free(exchange);
    *state = NULL;
}

/* Keeps paths and queries encoded: the gateway decodes them itself and refuses wrong encodings. */
static size_t keep_encoded(void *opaque, struct MHD_Connection *connection, char *text)
{
    (void)opaque;
    (void)connection;
    return strlen(text);
}

/* ---- beginning and end -------------------------------------------------------------------------- */

int server_start(const struct server_params *params, struct server **ret_server,
                 struct cv_error *error)
{
    cv_auto_fd int fd = -1;
    int port = 0;
    cv_auto_free struct server *server = calloc(1, sizeof(*server));
    CV_TRY_MEMORY(server, error, "the server");
    server->params = *params;
    CV_TRY(cv_probe_bind(params->address, &fd, &port, error));
    int failure = pthread_mutex_init(&server->mutex, NULL);
    if (failure) {
        return cv_fail_errno(error, failure, "cannot make a lock");
    }
    int result = polls_init(&server->polls, params->waiting, error);
    if (result) {
        (void)pthread_mutex_destroy(&server->mutex);
        return result;
    }
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL,
        on_request, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)THREADS, MHD_OPTION_CONNECTION_LIMIT, (unsigned)params->connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)params->per_address,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(IDLE_MS / 1000),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_STRICT_FOR_CLIENT,
        1, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, server, MHD_OPTION_URI_LOG_CALLBACK, on_target, server,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_encoded, NULL, MHD_OPTION_END);
    if (!server->daemon) {
        polls_deinit(&server->polls);
        (void)pthread_mutex_destroy(&server->mutex);
        return cv_fail(error, CV_ERROR_IO,
                       "the HTTP server does not start: too few descriptors or threads?");
    }
    (void)cv_take_fd(&fd); /* the daemon owns it now */
    cv_log(CV_LOG_INFO, "api-gateway %s: the API at port %d", CV_VERSION, port);
    *ret_server = cv_take(server);
    return 0;
}

void server_quiesce(struct server *server)
{
    ask_again(polls_end(&server->polls));
    MHD_socket fd = MHD_quiesce_daemon(server->daemon);
    if (fd >= 0) {
        (void)close(fd);
    }
}

int server_under_way(const struct server *server)
{
    return server->under_way;
}

void server_stop(struct server *server)
{
    if (!server) {
        return;
    }
    MHD_stop_daemon(server->daemon);
    polls_deinit(&server->polls);
    (void)pthread_mutex_destroy(&server->mutex);
    free(server);
}
