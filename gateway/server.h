/* The HTTP server: accepts connections, reads requests, checks them, says who asks, hands them to the pool, and sends
 * the answers. libmicrohttpd does HTTP/1.1; what it leaves open is decided here. No callback waits for anything: a
 * request that waits for the database is suspended.
 *
 * Bounds: the header of a request is complete 10 s after its connection (or the request before it) or the connection is
 * closed, however busily bytes trickle; 16 KiB of header, 8 KiB of it the target; 1 MiB of body, at 1 KiB/s at least.
 */
#pragma once

#include "gateway/admission.h"
#include "gateway/audit.h"
#include "gateway/events.h"
#include "gateway/pool.h"
#include "gateway/store_pool.h"

struct server;

struct server_params {
    const char *address; /* "HOST:PORT", HOST a number or empty; PORT 0: any free one */
    int connections;     /* clients at once */
    int per_address;     /* of one address; 0: no bound */
    const struct admission *admission;  /* borrowed */
    const struct media_settings *media; /* borrowed */
    struct cv_metrics *metrics;         /* borrowed; may be NULL */
};

/* CV_ERROR_CONFIGURATION when the address is none or cannot be had. */
CV_MUST_CHECK int server_start(const struct server_params *params, struct server **ret_server,
                               struct cv_error *error);

/* Where the exchanges go that need the database; before it all of them are answered 503. Called once. */
void server_use_pool(struct server *server, struct pool *pool);

/* Where the exchanges go that need the store; the same. */
void server_use_store_pool(struct server *server, struct store_pool *pool);

/* As admission_take_key. For pool_params.on_key. */
CV_MUST_CHECK bool server_take_key(struct exchange *exchange, const char *claims);

/* The database has answered: does the operation's step, and sends. For pool_params.on_answer. */
void server_take_answer(struct exchange *exchange);

/* Who notes what was refused. Called once, before server_use_pool. */
void server_use_audit(struct server *server, struct audit *audit);

/* Who streams. Called once, before server_use_pool. */
void server_use_events(struct server *server, struct events *events);

/* The store's part is done: sends, or asks the database for what follows. For store_pool_params.on_done. */
void server_take_work(struct exchange *exchange);

/* An exchange has its answer; from any thread. */
void server_send(struct exchange *exchange);

/* Closes the connections that are late; to be called each second. */
void server_close_late(struct server *server);

/* Looks again for the exchanges whose callers wait for a change; to be called twice a second. */
void server_ask_again(struct server *server);

int server_port(const struct server *server);

/* Takes no more connections. */
void server_quiesce(struct server *server);

/* Requests that were begun and not answered. */
int server_under_way(const struct server *server);

/* Ends it; no exchange may be in the pool any more. */
void server_stop(struct server *server);
CV_DEFINE_CLEANUP(struct server *, server_stop)
