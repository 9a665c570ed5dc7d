#include "gateway/store_pool.h"

#include "gateway/exchange_queue.h"

enum { THREADS = 4 };

struct store_pool {
    struct store_pool_params params;
    struct exchange_queue queue;
};

static void *run_thread(void *opaque)
{
    struct store_pool *pool = opaque;
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    struct cv_error error;
    for (struct exchange *exchange; (exchange = exchange_queue_wait(&pool->queue));) {
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
    int result = exchange_queue_start(&pool->queue, THREADS, run_thread, pool, error);
    if (result) {
        free(pool);
        return result;
    }
    *ret_pool = pool;
    return 0;
}

void store_pool_stop(struct store_pool *pool)
{
    if (pool) {
        exchange_queue_stop(&pool->queue);
    }
}

void store_pool_free(struct store_pool *pool)
{
    if (pool) {
        exchange_queue_deinit(&pool->queue);
        free(pool);
    }
}

bool store_pool_take(struct store_pool *pool, struct exchange *exchange)
{
    return exchange_queue_take(&pool->queue, exchange);
}
