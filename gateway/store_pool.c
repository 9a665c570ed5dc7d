#include "gateway/store_pool.h"

#include "gateway/exchange.h"

enum { THREADS = 4 };

struct store_pool {
    struct store_pool_params params;
    struct exchange_queue queue;
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

static void *run_thread(void *opaque)
{
    struct store_pool *pool = opaque;
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    for (struct exchange *exchange; (exchange = exchange_queue_wait(&pool->queue));) {
        open_store(pool, &store);
        exchange->work(store, exchange);
        pool->params.on_done(exchange);
    }
    return NULL;
}

int store_pool_start(const struct store_pool_params *params, struct store_pool **ret_pool,
                     struct cv_error *error)
{
    struct store_pool *pool = calloc(1, sizeof(*pool));
    CV_TRY_MEMORY(pool, error, "the store's threads");
    pool->params = *params;
    (void)pthread_mutex_init(&pool->mutex, NULL);
    int result = exchange_queue_start(&pool->queue, THREADS, run_thread, pool, error);
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
        exchange_queue_stop(&pool->queue);
    }
}

void store_pool_free(struct store_pool *pool)
{
    if (pool) {
        exchange_queue_deinit(&pool->queue);
        cv_store_close(pool->here);
        (void)pthread_mutex_destroy(&pool->mutex);
        free(pool);
    }
}

bool store_pool_take(struct store_pool *pool, struct exchange *exchange)
{
    return exchange_queue_take(&pool->queue, exchange);
}

bool store_pool_do(struct store_pool *pool, struct exchange *exchange)
{
    if (pthread_mutex_trylock(&pool->mutex) != 0) {
        return false;
    }
    open_store(pool, &pool->here);
    bool is_done = pool->here && cv_store_is_directory(pool->here);
    if (is_done) {
        exchange->work(pool->here, exchange);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return is_done;
}
