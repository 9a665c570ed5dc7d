/* Threads with a database connection each, which run what requests ask for: one transaction a request, under the role
 * and the claims of its token. A thread whose connection is lost makes a new one; requests meanwhile are answered 503. */
#pragma once

#include "common/db/db.h"

#include "gateway/exchange.h"

struct pool;

struct pool_params {
    int connections;
    bool hides_payloads; /* of jobs and of their results: tenants see the members' names alone */
    struct cv_cancel *cancel; /* an abort ends statements */
    /* Called in a thread of the pool with what the database knows of an exchange's API key: its claims, or NULL. Whether
     * the exchange goes on; else it has its answer. */
    bool (*on_key)(struct exchange *exchange, const char *claims);
    /* Called in a thread of the pool when an exchange has its answer. */
    void (*on_answer)(struct exchange *exchange);
};

CV_MUST_CHECK int pool_start(const struct pool_params *params, struct pool **ret_pool,
                             struct cv_error *error);

/* Ends the threads after what is in the queue. No pool_take may follow. */
void pool_stop(struct pool *pool);
CV_DEFINE_CLEANUP(struct pool *, pool_stop)

/* Whether requests are run; else they are answered 503 with this reason. Not at the beginning. */
void pool_set_ready(struct pool *pool, bool is_ready);

/* Queues an exchange; false when there is no room. */
CV_MUST_CHECK bool pool_take(struct pool *pool, struct exchange *exchange);
