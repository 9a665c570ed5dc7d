/* Threads with a store each, for operations that wait for a disk or a bucket: opening, reading and
 * writing objects. If a store cannot be opened, the next exchange tries again; until then requests
 * are answered 503. */
#pragma once

#include "common/store/store.h"

#include "gateway/exchange.h"

struct store_pool;

struct store_pool_params {
    struct cv_cancel *cancel; /* an abort cancels requests to a bucket */
    /* Called in a pool thread when an exchange's work is done. */
    void (*on_done)(struct exchange *exchange);
};

CV_MUST_CHECK int store_pool_start(const struct store_pool_params *params,
                                   struct store_pool **ret_pool, struct cv_error *error);

/* Ends the threads after the queued exchanges. Later exchanges are refused. */
void store_pool_stop(struct store_pool *pool);

/* Frees it, when store_pool_take and store_pool_do are not called any more. */
void store_pool_free(struct store_pool *pool);

/* Queues an exchange, whose `work` a thread then calls; false if the queue is full. */
CV_MUST_CHECK bool store_pool_take(struct store_pool *pool, struct exchange *exchange);

/* Calls an exchange's `work` in the calling thread, if the store is a directory and no other thread
 * is doing the same: two thread switches cost more than opening a file. So at most one caller waits
 * for a disk. False: nothing was done. */
bool store_pool_do(struct store_pool *pool, struct exchange *exchange);
