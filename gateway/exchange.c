#include "gateway/exchange.h"

#include <signal.h>

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
    (void)pthread_mutex_init(&queue->mutex, NULL);
    (void)pthread_cond_init(&queue->arrived, NULL);
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the main thread handles all signals */
    int failure = 0;
    while (failure == 0 && queue->thread_count < threads &&
           queue->thread_count < EXCHANGE_THREADS_MAX) {
        failure = pthread_create(&queue->threads[queue->thread_count], NULL, run, opaque);
        queue->thread_count += failure == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure) {
        exchange_queue_stop(queue);
        exchange_queue_deinit(queue);
        return cv_fail_errno(error, failure, "cannot start a thread that answers requests");
    }
    return 0;
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
    (void)pthread_cond_destroy(&queue->arrived);
    (void)pthread_mutex_destroy(&queue->mutex);
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
