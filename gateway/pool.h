/* Threads with a database connection each that run requests: one transaction for each request, with
 * the role and the claims of its token. A thread that loses its connection makes a new one; until
 * then requests are answered 503. */
#pragma once

#include "common/db/db.h"
#include "common/store/store.h"

#include "gateway/exchange.h"

struct pool;

struct pool_params {
    int connections;
    bool hides_payloads;      /* tenants see only members' names in jobs' payloads and results */
    struct cv_cancel *cancel; /* an abort cancels statements */
    /* Called in a pool thread when an exchange has its answer. */
    void (*on_answer)(struct exchange *exchange);
};

CV_MUST_CHECK int pool_start(const struct pool_params *params, struct pool **ret_pool,
                             struct cv_error *error);

/* Ends the threads after the queued exchanges. pool_add must not be called afterwards. */
void pool_stop(struct pool *pool);
CV_DEFINE_CLEANUP(struct pool *, pool_stop)

/* Sets whether requests are run; otherwise they are answered 503. Initially they are not run. */
void pool_set_ready(struct pool *pool, bool is_ready);

/* Queues an exchange; false if the queue is full. */
CV_MUST_CHECK bool pool_add(struct pool *pool, struct exchange *exchange);

/* Threads with a store each, for operations that wait for a disk or a bucket: opening, reading and
 * writing objects. Nothing waits for a bucket longer than 15 s, except what joins an upload's parts. If a store cannot be opened, the next exchange tries again; until then requests
 * are answered 503. */

struct store_pool;

struct store_pool_params {
    struct cv_cancel *cancel; /* an abort cancels requests to a bucket */
    /* Does the exchange's step, in a pool thread or in that of store_pool_do; `store` NULL: it cannot be
     * opened. */
    void (*work)(struct cv_store *store, struct exchange *exchange);
    /* Called in a pool thread when that is done. */
    void (*on_done)(struct exchange *exchange);
};

CV_MUST_CHECK int store_pool_start(const struct store_pool_params *params,
                                   struct store_pool **ret_pool, struct cv_error *error);

/* Ends the threads after the queued exchanges. Later exchanges are refused. */
void store_pool_stop(struct store_pool *pool);

/* Frees it, when store_pool_add and store_pool_do are not called any more. */
void store_pool_free(struct store_pool *pool);

/* Queues an exchange, whose step a thread then does; false if the queue is full. */
CV_MUST_CHECK bool store_pool_add(struct store_pool *pool, struct exchange *exchange);

/* Does an exchange's step in the calling thread, if the store is a directory and no other thread
 * is doing the same: two thread switches cost more than opening a file. So at most one caller waits
 * for a disk. False: nothing was done. */
bool store_pool_do(struct store_pool *pool, struct exchange *exchange);
