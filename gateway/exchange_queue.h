/* A queue of exchanges and the threads that take them from it, first come, first served. */
#pragma once

#include "gateway/exchange.h"

#include <pthread.h>

enum { EXCHANGE_THREADS_MAX = 64 };

/* Part of what starts it, which `run` is given; its members are this file's own. */
struct exchange_queue {
    pthread_t threads[EXCHANGE_THREADS_MAX];
    int thread_count;
    pthread_mutex_t mutex; /* everything below */
    pthread_cond_t arrived;
    struct exchange *first, **last;
    size_t waiting;
    bool is_ending;
};

/* Starts `threads` threads (at most EXCHANGE_THREADS_MAX) that each call `run` with `opaque` once; signals are blocked
 * in them. After a failure nothing runs and nothing is to be freed. */
CV_MUST_CHECK int exchange_queue_start(struct exchange_queue *queue, int threads,
                                       void *(*run)(void *opaque), void *opaque,
                                       struct cv_error *error);

/* Waits for the next exchange; NULL when the queue has been stopped and is empty. For `run`. */
struct exchange *exchange_queue_wait(struct exchange_queue *queue);

/* Ends the threads after what is in the queue. What is handed over later is refused. */
void exchange_queue_stop(struct exchange_queue *queue);

/* After exchange_queue_stop, when nobody may hand anything over any more. */
void exchange_queue_deinit(struct exchange_queue *queue);

/* Queues an exchange; false when there is no room or the queue has been stopped. */
CV_MUST_CHECK bool exchange_queue_take(struct exchange_queue *queue, struct exchange *exchange);
