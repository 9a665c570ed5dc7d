/* Threads with a database connection each that run requests: one transaction for each request, with
 * the role and the claims of its token. A thread that loses its connection makes a new one; until
 * then requests are answered 503. */
#pragma once

#include "common/db/db.h"

#include "gateway/exchange.h"

struct pool;

struct pool_params {
    int connections;
    bool hides_payloads;      /* tenants see only members' names in jobs' payloads and results */
    struct cv_cancel *cancel; /* an abort cancels statements */
    /* Called in a pool thread with the database's answer about an exchange's API key: its claims,
     * or NULL. Returns whether the exchange is admitted; if not, it has its answer. */
    bool (*on_key)(struct exchange *exchange, const char *claims);
    /* Called in a pool thread when an exchange has its answer. */
    void (*on_answer)(struct exchange *exchange);
};

CV_MUST_CHECK int pool_start(const struct pool_params *params, struct pool **ret_pool,
                             struct cv_error *error);

/* Ends the threads after the queued exchanges. pool_take must not be called afterwards. */
void pool_stop(struct pool *pool);
CV_DEFINE_CLEANUP(struct pool *, pool_stop)

/* Sets whether requests are run; otherwise they are answered 503. Initially they are not run. */
void pool_set_ready(struct pool *pool, bool is_ready);

/* Queues an exchange; false if the queue is full. */
CV_MUST_CHECK bool pool_take(struct pool *pool, struct exchange *exchange);
