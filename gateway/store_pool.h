/* Threads with a store each, which do what waits for a disk or a bucket: opening, reading and writing objects. A store
 * that cannot be opened is tried again by the next exchange; requests meanwhile are answered 503. */
#pragma once

#include "common/store/store.h"

#include "gateway/exchange.h"

struct store_pool;

struct store_pool_params {
    struct cv_cancel *cancel; /* an abort ends requests to a bucket */
    /* Called in a thread of the pool when an exchange's work is done. */
    void (*on_done)(struct exchange *exchange);
};

CV_MUST_CHECK int store_pool_start(const struct store_pool_params *params,
                                   struct store_pool **ret_pool, struct cv_error *error);

/* Ends the threads after what is in the queue. What is handed over later is refused. */
void store_pool_stop(struct store_pool *pool);

/* Nobody may hand anything over any more. */
void store_pool_free(struct store_pool *pool);

/* Queues an exchange, whose `work` a thread then calls; false when there is no room. */
CV_MUST_CHECK bool store_pool_take(struct store_pool *pool, struct exchange *exchange);

/* Calls an exchange's `work` in the calling thread, where the store is a directory and no other thread is in
 * here: two changes of threads cost more than opening a file. At most one caller waits for a disk. False: nothing
 * was done. */
bool store_pool_do(struct store_pool *pool, struct exchange *exchange);
