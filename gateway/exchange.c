#include "gateway/exchange.h"

#include "gateway/response.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

const char *exchange_header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

/* ---- answers --------------------------------------------------------------------------------- */

void answer_deinit(struct answer *answer)
{
    free(answer->body);
    if (answer->has_fd) {
        (void)close(answer->fd);
    }
    relay_free(answer->relay);
    json_decref(answer->headers);
    *answer = (struct answer){0};
}

void answer_set_header(struct answer *answer, const char *name, const char *value)
{
    if (!answer->headers) {
        answer->headers = json_object();
    }
    (void)json_object_set_new(answer->headers, name, json_string(value));
}

void answer_set_body(struct answer *answer, char *body)
{
    free(answer->body);
    answer->body = body;
    answer->length = body ? strlen(body) : 0;
}

void answer_become_feed(struct exchange *exchange)
{
    struct answer *answer = &exchange->answer;
    cv_auto(json_decref) json_t *body = answer_json(answer);
    const char *text = json_string_value(json_object_get(body, "feed"));
    char *copy = text ? strdup(text) : NULL;
    if (!copy) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
        return;
    }
    answer_set_body(answer, copy);
    answer->content_type = "application/atom+xml; charset=utf-8";
}

json_t *answer_json(const struct answer *answer)
{
    return json_loadb(answer->body ? answer->body : "", answer->body ? answer->length : 0, 0, NULL);
}

/* ---- refusals ---------------------------------------------------------------------------------- */

static const struct {
    unsigned status;
    const char *kind; /* the end of the type's URI */
    const char *title;
    int retry_after_s; /* unless the answer has its own time */
} refusals[] = {
    [REFUSE_BAD_REQUEST] = {400, "bad-request", "The request cannot be understood", 0},
    [REFUSE_UNAUTHORIZED] = {401, "unauthorized", "Sign in", 0},
    [REFUSE_FORBIDDEN] = {403, "forbidden", "You may not do this", 0},
    [REFUSE_NOT_FOUND] = {404, "not-found", "Not found", 0},
    [REFUSE_METHOD] = {405, "method", "There is no such operation", 0},
    [REFUSE_CONFLICT] = {409, "conflict", "Something else stands in the way", 0},
    [REFUSE_UNDER_WAY] = {409, "under-way", "The same is under way", 1},
    [REFUSE_WRONG_STATE] = {409, "wrong-state", "Its state forbids this", 0},
    [REFUSE_OFFSET] = {409, "offset", "The upload goes on elsewhere", 0},
    [REFUSE_NO_TUS] = {409, "no-tus", "Uploads go another way here", 0},
    [REFUSE_LENGTH] = {411, "length", "The length is missing", 0},
    [REFUSE_CHANGED] = {412, "changed", "It has changed since", 0},
    [REFUSE_TOO_LARGE] = {413, "too-large", "Too much at once", 0},
    [REFUSE_MEDIA_TYPE] = {415, "media-type", "The body has another form", 0},
    [REFUSE_NO_VIDEO] = {415, "no-video", "This is no video", 0},
    [REFUSE_RANGE] = {416, "range", "There are no such bytes", 0},
    [REFUSE_IDEMPOTENCY_KEY] = {422, "idempotency-key", "The key belongs to another request", 0},
    [REFUSE_LOCKED] = {423, "locked", "Somebody else writes", 1},
    [REFUSE_TOO_MANY] = {429, "too-many", "Too much at once", 1},
    [REFUSE_INTERNAL] = {500, "internal", "A defect of this service", 0},
    [REFUSE_ENCODING] = {501, "encoding", "The body is encoded in an unknown way", 0},
    [REFUSE_BUSY] = {503, "busy", "Try again", 1},
    [REFUSE_DATABASE_AWAY] = {503, "unavailable", "The database is away", 1},
    [REFUSE_STORE_AWAY] = {503, "unavailable", "The store is away", 1},
    [REFUSE_TIMEOUT] = {504, "timeout", "It took too long", 0},
    [REFUSE_NO_ROOM] = {507, "no-room", "There is no room for it", 0},
};

void exchange_refuse_faults(struct exchange *exchange, enum refusal refusal, const char *detail,
                            json_t *faults)
{
    struct answer *answer = &exchange->answer;
    char methods[sizeof(answer->methods)];
    int retry_after_s =
        answer->retry_after_s ? answer->retry_after_s : refusals[refusal].retry_after_s;
    (void)memcpy(methods, answer->methods, sizeof(methods));
    answer_deinit(answer);
    answer->status = refusals[refusal].status;
    answer->is_problem = true;
    answer->retry_after_s = retry_after_s;
    (void)memcpy(answer->methods, methods, sizeof(methods));
    cv_auto(json_decref) json_t *body =
        json_pack("{s:o, s:s, s:i, s:s, s:s, s:O*}", "type",
                  json_sprintf("/problems/%s", refusals[refusal].kind), "title",
                  refusals[refusal].title, "status", (int)answer->status, "detail", detail,
                  "instance", exchange->id, "errors", faults);
    answer_set_body(answer, body ? json_dumps(body, JSON_COMPACT) : NULL);
}

void exchange_refuse(struct exchange *exchange, enum refusal refusal, const char *detail)
{
    exchange_refuse_faults(exchange, refusal, detail, NULL);
}

void exchange_refuse_missing(struct exchange *exchange)
{
    exchange_refuse(exchange, REFUSE_NOT_FOUND, "there is nothing here that you may see");
}

void exchange_refuse_store(struct exchange *exchange, const struct cv_error *error)
{
    if (error) {
        cv_log_error(error, exchange->operation->name);
    }
    if (exchange->answer.relay) {
        return; /* an answer on its way cannot be replaced */
    }
    if (error && error->type == CV_ERROR_DISK_FULL) {
        exchange_refuse(
            exchange, REFUSE_NO_ROOM,
            "the disk is full: delete what nobody needs, or ask the operator for more room");
    } else {
        exchange_refuse(exchange, REFUSE_STORE_AWAY, "try again in a moment");
    }
}

/* The first entry whose text is a prefix of the SQLSTATE applies. */
static const struct {
    const char *beginning;
    enum refusal refusal;
    const char *detail; /* NULL: the server's message, which was written for the caller */
} by_sqlstate[] = {
    {"22023", REFUSE_BAD_REQUEST, NULL},
    {"22", REFUSE_BAD_REQUEST, "a value has the wrong form"},
    {"23514", REFUSE_BAD_REQUEST, "a value is out of its range"},
    {"23502", REFUSE_BAD_REQUEST, "a member that is needed is missing"},
    {"23503", REFUSE_CONFLICT, "what it refers to does not exist"},
    {"23505", REFUSE_CONFLICT, "the same exists already"},
    {"55P03", REFUSE_UNDER_WAY,
     "a request with this Idempotency-Key, or for the same thing, is under way"},
    {"55000", REFUSE_WRONG_STATE, NULL},
    {"25006", REFUSE_INTERNAL, "a read tried to write"},
    {"42501", REFUSE_FORBIDDEN, "your role does not allow this operation"},
    {"54000", REFUSE_TOO_LARGE, NULL},
    {"53400", REFUSE_TOO_MANY, NULL},
    {"53100", REFUSE_NO_ROOM, "the disk of the database is full: ask the operator for more room"},
    {"57014", REFUSE_TIMEOUT, "narrow the request down, or try again"},
    {"40", REFUSE_BUSY, "others changed the same at the same moment"},
    {"08", REFUSE_DATABASE_AWAY, "try again in a moment"},
    {"57", REFUSE_DATABASE_AWAY, "try again in a moment"},
    {"53", REFUSE_DATABASE_AWAY, "try again in a moment"},
    {"", REFUSE_INTERNAL, "the log says more under this request's id"},
};

/* Where the request has a member: its own name, or that of the object which holds it. */
static json_t *place_of(const struct exchange *exchange, const char *member)
{
    const char *name;
    json_t *value;
    json_object_foreach(exchange->values, name, value)
    {
        if (json_object_get(value, member)) {
            return json_sprintf("%s.%s", name, member);
        }
    }
    return json_string(member);
}

void exchange_refuse_sqlstate(struct exchange *exchange, const char *sqlstate, const char *message,
                              const char *parameter)
{
    if (strcmp(sqlstate, "P0002") == 0) {
        exchange_refuse_missing(exchange);
        return;
    }
    if (strcmp(sqlstate, "42883") == 0 && strstr(message, " api.")) { /* no such function */
        exchange_refuse(exchange, REFUSE_NOT_FOUND,
                        "this database lacks the operation: cortana migrate adds it, unless "
                        "CORTANA_PLATFORM is off");
        return;
    }
    const char *known = sqlstate[0] ? sqlstate : "08006";
    size_t i = 0;
    while (strncmp(known, by_sqlstate[i].beginning, strlen(by_sqlstate[i].beginning)) != 0) {
        i++; /* the last entry, "", fits every SQLSTATE */
    }
    bool is_shown = !by_sqlstate[i].detail;
    cv_auto(json_decref) json_t *faults =
        is_shown && parameter[0]
            ? json_pack("[{s:o, s:s}]", "pointer", place_of(exchange, parameter), "detail", message)
            : NULL;
    exchange_refuse_faults(exchange, by_sqlstate[i].refusal,
                           is_shown ? message : by_sqlstate[i].detail, faults);
}

/* ---- the queue ----------------------------------------------------------------------------------- */

enum {
    WAITING_MAX = 256,
    WAITING_OF_A_CALLER_MAX = 128, /* no caller fills the queue alone */
    GRANT_PATH_LENGTH = 105,       /* /media/ and a grant */
};

uint64_t exchange_hash(const char *text, size_t length)
{
    uint64_t hash = cv_hash(CV_HASH_BEGIN, text, length);
    return hash ? hash : 1;
}

uint64_t exchange_caller(const struct exchange *exchange)
{
    const struct principal *principal = &exchange->principal;
    char network[ADDRESS_TEXT_SIZE];
    if (principal->role != CALLER_NOBODY) {
        return exchange_hash(principal->name, strlen(principal->name));
    }
    if (!exchange->address[0]) {
        return exchange_hash(exchange->target, strnlen(exchange->target, GRANT_PATH_LENGTH));
    }
    limits_network(exchange->address, network);
    return exchange_hash(network, strlen(network));
}

int exchange_queue_start(struct exchange_queue *queue, int threads, void *(*run)(void *opaque),
                         void *opaque, struct cv_error *error)
{
    *queue = (struct exchange_queue){0};
    CV_TRY(cv_thread_locks(&queue->mutex, &queue->arrived, error));
    int result = 0;
    while (result == 0 && queue->thread_count < threads &&
           queue->thread_count < EXCHANGE_THREADS_MAX) {
        result = cv_thread_start(&queue->threads[queue->thread_count], run, opaque, error);
        queue->thread_count += result == 0;
    }
    if (result) {
        exchange_queue_stop(queue);
        exchange_queue_deinit(queue);
    }
    return result;
}

struct exchange *exchange_queue_wait(struct exchange_queue *queue)
{
    CV_LOCK(&queue->mutex);
    while (!queue->first && !queue->is_ending) {
        (void)pthread_cond_wait(&queue->arrived, &queue->mutex);
    }
    struct exchange *exchange = queue->first;
    if (exchange) {
        queue->first = exchange->next;
        queue->turn = exchange->turn;
        queue->waiting--;
    }
    return exchange;
}

void exchange_queue_stop(struct exchange_queue *queue)
{
    (void)pthread_mutex_lock(&queue->mutex);
    queue->is_ending = true;
    (void)pthread_cond_broadcast(&queue->arrived);
    (void)pthread_mutex_unlock(&queue->mutex);
    for (int i = 0; i < queue->thread_count; i++) {
        (void)pthread_join(queue->threads[i], NULL);
    }
    queue->thread_count = 0;
}

void exchange_queue_deinit(struct exchange_queue *queue)
{
    cv_thread_locks_deinit(&queue->mutex, &queue->arrived);
}

/* Puts an exchange behind those whose turn comes before: its caller's nth exchange in the queue has the
 * nth turn from now on. Returns false if these are too many. */
static bool put_in_turn(struct exchange_queue *queue, struct exchange *exchange)
{
    struct exchange **here = &queue->first;
    int own = 0;
    exchange->caller = exchange_caller(exchange);
    for (const struct exchange *other = queue->first; other; other = other->next) {
        own += other->caller == exchange->caller;
    }
    exchange->turn = queue->turn + 1 + own;
    while (*here && (*here)->turn <= exchange->turn) {
        here = &(*here)->next;
    }
    if (own >= WAITING_OF_A_CALLER_MAX) {
        return false;
    }
    exchange->next = *here;
    *here = exchange;
    queue->waiting++;
    return true;
}

bool exchange_queue_add(struct exchange_queue *queue, struct exchange *exchange)
{
    exchange->queued_ms = cv_monotonic_ms();
    (void)pthread_mutex_lock(&queue->mutex);
    bool has_room =
        queue->waiting < WAITING_MAX && !queue->is_ending && put_in_turn(queue, exchange);
    (void)pthread_mutex_unlock(&queue->mutex);
    if (has_room) { /* signalled without the lock, so that the other thread need not wait for it */
        (void)pthread_cond_signal(&queue->arrived);
    }
    return has_room;
}
