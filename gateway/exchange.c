#include "gateway/exchange.h"

#include "gateway/response.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

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

void answer_refuse(struct answer *answer, const struct problem *problem, const char *request_id)
{
    char type[96];
    (void)snprintf(type, sizeof(type), "/problems/%s", problem->kind);
    char methods[sizeof(answer->methods)];
    int retry_after_s = answer->retry_after_s;
    (void)memcpy(methods, answer->methods, sizeof(methods));
    answer_deinit(answer);
    answer->status = problem->status;
    answer->is_problem = true;
    answer->retry_after_s = retry_after_s;
    (void)memcpy(answer->methods, methods, sizeof(methods));
    cv_auto(json_decref) json_t *body =
        json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", type, "title", problem->title, "status",
                  (int)problem->status, "detail", problem->detail, "instance", request_id);
    if (body && problem->faults) {
        (void)json_object_set(body, "errors", (json_t *)problem->faults);
    }
    answer->body = body ? json_dumps(body, JSON_COMPACT) : NULL;
    answer->length = answer->body ? strlen(answer->body) : 0;
}

void answer_not_found(struct answer *answer, const char *request_id)
{
    answer_refuse(answer,
                  &(struct problem){.status = 404,
                                    .kind = "not-found",
                                    .title = "Not found",
                                    .detail = "there is nothing here that you may see"},
                  request_id);
}

/* The first entry whose text is a prefix of the SQLSTATE applies. */
static const struct {
    const char *beginning;
    bool shows_message; /* the message was written for the caller */
    struct problem problem;
} by_sqlstate[] = {
    {"22023",
     true,
     {400, "bad-request", "The request cannot be understood", "a value is out of its range", NULL}},
    {"22",
     false,
     {400, "bad-request", "The request cannot be understood", "a value has the wrong form", NULL}},
    {"23514",
     false,
     {400, "bad-request", "The request cannot be understood", "a value is out of its range", NULL}},
    {"23502",
     false,
     {400, "bad-request", "The request cannot be understood", "a member that is needed is missing",
      NULL}},
    {"23503",
     false,
     {409, "conflict", "Something else stands in the way", "what it refers to does not exist",
      NULL}},
    {"23505",
     false,
     {409, "conflict", "Something else stands in the way", "the same exists already", NULL}},
    {"55P03",
     false,
     {409, "under-way", "The same is under way",
      "a request with this Idempotency-Key, or for the same thing, is under way", NULL}},
    {"55000", true, {409, "wrong-state", "Its state forbids this", "its state forbids this", NULL}},
    {"25006", false, {500, "internal", "A defect of this service", "a read tried to write", NULL}},
    {"42501",
     false,
     {403, "forbidden", "You may not do this", "your role does not allow this operation", NULL}},
    {"54000", true, {413, "too-large", "Too much at once", "ask for less", NULL}},
    {"53400", true, {429, "too-many", "Too much at once", "wait for what is under way", NULL}},
    {"57014",
     false,
     {504, "timeout", "It took too long", "narrow the request down, or try again", NULL}},
    {"40", false, {503, "busy", "Try again", "others changed the same at the same moment", NULL}},
    {"08", false, {503, "unavailable", "The database is away", "try again in a moment", NULL}},
    {"57", false, {503, "unavailable", "The database is away", "try again in a moment", NULL}},
    {"53", false, {503, "unavailable", "The database is away", "try again in a moment", NULL}},
    {"",
     false,
     {500, "internal", "A defect of this service", "the log says more under this request's id",
      NULL}},
};

void answer_refuse_sqlstate(struct answer *answer, const char *sqlstate, const char *message,
                            const char *request_id)
{
    if (strcmp(sqlstate, "P0002") == 0) {
        answer_not_found(answer, request_id);
        return;
    }
    const char *known = sqlstate[0] ? sqlstate : "08006";
    size_t i = 0;
    while (strncmp(known, by_sqlstate[i].beginning, strlen(by_sqlstate[i].beginning)) != 0) {
        i++; /* the last entry, "", fits every SQLSTATE */
    }
    struct problem problem = by_sqlstate[i].problem;
    problem.detail = by_sqlstate[i].shows_message ? message : problem.detail;
    bool may_try_again = problem.status == 503 || problem.status == 429;
    answer->retry_after_s = may_try_again || strcmp(known, "55P03") == 0 ? 1 : 0;
    answer_refuse(answer, &problem, request_id);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

const char *exchange_header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

void exchange_refuse(struct exchange *exchange, unsigned status, const char *kind,
                     const char *title, const char *detail)
{
    answer_refuse(
        &exchange->answer,
        &(struct problem){.status = status, .kind = kind, .title = title, .detail = detail},
        exchange->id);
}

void exchange_refuse_store(struct exchange *exchange, const struct cv_error *error)
{
    if (error) {
        cv_log_error(error, exchange->operation->name);
    }
    exchange->answer.retry_after_s = 1;
    exchange_refuse(exchange, 503, "unavailable", "The store is away", "try again in a moment");
}

/* ---- the queue ----------------------------------------------------------------------------------- */

enum { WAITING_MAX = 256 };

int exchange_queue_start(struct exchange_queue *queue, int threads, void *(*run)(void *opaque),
                         void *opaque, struct cv_error *error)
{
    *queue = (struct exchange_queue){.last = &queue->first};
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
    (void)pthread_mutex_lock(&queue->mutex);
    while (!queue->first && !queue->is_ending) {
        (void)pthread_cond_wait(&queue->arrived, &queue->mutex);
    }
    struct exchange *exchange = queue->first;
    if (exchange) {
        queue->first = exchange->next;
        queue->last = queue->first ? queue->last : &queue->first;
        queue->waiting--;
    }
    (void)pthread_mutex_unlock(&queue->mutex);
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

bool exchange_queue_take(struct exchange_queue *queue, struct exchange *exchange)
{
    (void)pthread_mutex_lock(&queue->mutex);
    bool has_room = queue->waiting < WAITING_MAX && !queue->is_ending;
    if (has_room) {
        exchange->next = NULL;
        *queue->last = exchange;
        queue->last = &exchange->next;
        queue->waiting++;
    }
    (void)pthread_mutex_unlock(&queue->mutex);
    if (has_room) { /* signalled without the lock, so that the other thread need not wait for it */
        (void)pthread_cond_signal(&queue->arrived);
    }
    return has_room;
}
