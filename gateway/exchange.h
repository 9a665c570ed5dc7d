/* One request on its way through the gateway: read and checked by a thread of the server, run by a thread of the pool,
 * answered by the server. Only one thread at a time has it. */
#pragma once

#include "gateway/answer.h"
#include "gateway/limits.h"
#include "gateway/routes.h"
#include "gateway/token.h"

#include <microhttpd.h>
#include <pthread.h>

struct cv_store;
struct media_settings;
struct upload_part;

struct exchange {
    struct server *server;
    const struct media_settings *media;
    struct MHD_Connection *connection;
    struct exchange *next; /* in a pool's queue */
    /* What a thread of the store pool is to do; `store` is NULL where it cannot be opened. */
    void (*work)(struct cv_store *store, struct exchange *exchange);
    char *target; /* of the request line, as it was sent */
    char id[REQUEST_ID_SIZE];
    const struct operation *operation; /* NULL: none, refused */
    char address[ADDRESS_TEXT_SIZE];   /* of who asks */
    struct principal principal;
    struct rate_state rate;
    const char *once_key;  /* of the header Idempotency-Key, which the library keeps; NULL: none */
    const char *if_match;  /* of that header, the same; NULL: none */
    struct cv_buffer body; /* where the operation takes bytes: what of them is not written yet */
    struct upload_part *part; /* of an upload, while its bytes are taken; NULL: none */
    uint64_t received;        /* bytes of the body */
    json_t *values;           /* checked parameters */
    char *cookie;             /* for the answer, where it is a success; NULL: none */
    struct answer answer;
    int64_t began_ms;
    bool is_begun;
    bool is_write; /* neither GET nor HEAD */
    bool is_head;
    bool is_body_too_long;
    bool is_put_off;   /* its refusal, until its API key has been looked up */
    bool is_last_part; /* of an upload by tus */
    bool is_joined;    /* an upload whose bytes are all in their place */
    bool is_noted;     /* in the audit log, or has changed nothing */
};

/* A header of the request, which the library keeps; NULL: none. */
const char *exchange_header(const struct exchange *exchange, const char *name);

/* Answers with a refusal (answer_refuse). */
void exchange_refuse(struct exchange *exchange, unsigned status, const char *kind,
                     const char *title, const char *detail);

/* 503, because of the store. `error` NULL: it was logged before, or there is no store. */
void exchange_refuse_store(struct exchange *exchange, const struct cv_error *error);

/* A queue of exchanges and the threads that take them from it, first come, first served. */

enum { EXCHANGE_THREADS_MAX = 64 };

/* Part of what starts it, which `run` is given; its members are this file's own. */
struct exchange_queue {
    pthread_t threads[EXCHANGE_THREADS_MAX];
    int thread_count;
    pthread_mutex_t mutex; /* everything below */
    pthread_cond_t arrived;
    struct exchange *first, **last;
    size_t waiting;
    bool is_ending;
};

/* Starts `threads` threads (at most EXCHANGE_THREADS_MAX) that each call `run` with `opaque` once; signals are blocked
 * in them. After a failure nothing runs and nothing is to be freed. */
CV_MUST_CHECK int exchange_queue_start(struct exchange_queue *queue, int threads,
                                       void *(*run)(void *opaque), void *opaque,
                                       struct cv_error *error);

/* Waits for the next exchange; NULL when the queue has been stopped and is empty. For `run`. */
struct exchange *exchange_queue_wait(struct exchange_queue *queue);

/* Ends the threads after what is in the queue. What is handed over later is refused. */
void exchange_queue_stop(struct exchange_queue *queue);

/* After exchange_queue_stop, when nobody may hand anything over any more. */
void exchange_queue_deinit(struct exchange_queue *queue);

/* Queues an exchange; false when there is no room or the queue has been stopped. */
CV_MUST_CHECK bool exchange_queue_take(struct exchange_queue *queue, struct exchange *exchange);
