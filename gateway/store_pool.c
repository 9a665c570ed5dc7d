#include "gateway/store_pool.h"

#include <pthread.h>
#include <signal.h>

enum {
    THREADS = 4,
    WAITING_MAX = 256,
};

struct store_pool {
    struct store_pool_params params;
    pthread_t threads[THREADS];
    int thread_count;

    pthread_mutex_t mutex; /* everything below */
    pthread_cond_t arrived;
    struct exchange *first, **last;
    size_t waiting;
    bool is_ending;
};

static struct exchange *wait_for_exchange(struct store_pool *pool)
{
    (void)pthread_mutex_lock(&pool->mutex);
    while (!pool->first && !pool->is_ending) {
        (void)pthread_cond_wait(&pool->arrived, &pool->mutex);
    }
    struct exchange *exchange = pool->first;
    if (exchange) {
        pool->first = exchange->next;
        pool->last = pool->first ? pool->last : &pool->first;
        pool->waiting--;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return exchange;
}

static void *run_thread(void *opaque)
{
    struct store_pool *pool = opaque;
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    struct cv_error error;
    for (struct exchange *exchange; (exchange = wait_for_exchange(pool));) {
        if (!store) {
            if (cv_store_open(NULL, &store, &error) == 0) {
                cv_store_set_cancel(store, pool->params.cancel);
            } else {
                cv_log_error(&error, "the store cannot be opened");
                store = NULL;
            }
        }
        exchange->work(store, exchange);
        pool->params.on_done(exchange);
    }
    return NULL;
}

int store_pool_start(const struct store_pool_params *params, struct store_pool **ret_pool,
                     struct cv_error *error)
{
    struct store_pool *pool = calloc(1, sizeof(*pool));
    if (!pool) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the store's threads");
    }
    pool->params = *params;
    pool->last = &pool->first;
    (void)pthread_mutex_init(&pool->mutex, NULL);
    (void)pthread_cond_init(&pool->arrived, NULL);
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
    int failure = 0;
    while (failure == 0 && pool->thread_count < THREADS) {
        failure = pthread_create(&pool->threads[pool->thread_count], NULL, run_thread, pool);
        pool->thread_count += failure == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure) {
        store_pool_stop(pool);
        store_pool_free(pool);
        return cv_fail_errno(error, failure, "cannot start a thread of the store");
    }
    *ret_pool = pool;
    return 0;
}

void store_pool_stop(struct store_pool *pool)
{
    if (!pool) {
        return;
    }
    (void)pthread_mutex_lock(&pool->mutex);
    pool->is_ending = true;
    (void)pthread_cond_broadcast(&pool->arrived);
    (void)pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->thread_count; i++) {
        (void)pthread_join(pool->threads[i], NULL);
    }
    pool->thread_count = 0;
}

void store_pool_free(struct store_pool *pool)
{
    if (pool) {
        (void)pthread_cond_destroy(&pool->arrived);
        (void)pthread_mutex_destroy(&pool->mutex);
        free(pool);
    }
}

bool store_pool_take(struct store_pool *pool, struct exchange *exchange)
{
    (void)pthread_mutex_lock(&pool->mutex);
    bool has_room = pool->waiting < WAITING_MAX && !pool->is_ending;
    if (has_room) {
        exchange->next = NULL;
        *pool->last = exchange;
        pool->last = &exchange->next;
        pool->waiting++;
        (void)pthread_cond_signal(&pool->arrived);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return has_room;
}
