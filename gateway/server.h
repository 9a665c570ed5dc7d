/* The HTTP server: accepts connections, reads and checks requests, identifies the caller, passes
 * requests to the pool, and sends the answers. libmicrohttpd implements HTTP/1.1; this file decides
 * what it leaves open. No callback waits: a request that waits for the database is suspended.
 *
 * Limits: a connection is closed if the header of a request is not complete within 10 s after the
 * connection was opened or the last request ended, even if bytes keep arriving; 16 KiB of header, 8
 * KiB of it for the target; 1 MiB of body, at 1 KiB/s or more. */
#pragma once

#include "gateway/audit.h"
#include "gateway/caller.h"
#include "gateway/events.h"
#include "gateway/pool.h"
#include "gateway/session.h"

struct server;

struct server_params {
    const char *address; /* "HOST:PORT", HOST a number or empty; PORT 0: any free one */
    int connections;     /* most connections at once */
    int per_address;     /* most connections of one address; 0: no limit */
    int waiting;         /* most long polls of one caller; 0: no limit */
    const struct admission *admission;  /* borrowed */
    const struct media_settings *media; /* borrowed */
    struct cv_metrics *metrics;         /* borrowed; may be NULL */
    struct pool *pool;                  /* these are stopped before the server */
    struct store_pool *store_pool;
    struct events *events;
    struct audit *audit;
    struct session *session; /* borrowed */
};

/* Starts the server. CV_ERROR_CONFIGURATION if the address is invalid or cannot be bound. */
CV_MUST_CHECK int server_start(const struct server_params *params, struct server **ret_server,
                               struct cv_error *error);

/* Does a step with the store; NULL: it cannot be opened. For store_pool_params.work. */
void server_work(struct cv_store *store, struct exchange *exchange);

/* Takes the steps that follow one that a thread of a pool has done. For pool_params.on_answer and
 * store_pool_params.on_done. */
void server_go_on(struct exchange *exchange);

/* Closes connections that are too slow; must be called every second. */
void server_close_late(struct server *server);

/* Asks the database, if it is connected, which jobs that callers wait for have ended, and repeats these
 * callers' requests and those whose time is over; must be called twice a second. */
void server_ask_again(struct server *server, struct cv_db *db);

/* Stops accepting connections. */
void server_quiesce(struct server *server);

/* The number of requests that have begun and have no answer yet. */
int server_under_way(const struct server *server);

/* Stops the server; no exchange may be in a pool any more. */
void server_stop(struct server *server);
CV_DEFINE_CLEANUP(struct server *, server_stop)
