/* One request on its way through the gateway: a server thread reads and checks it, a pool thread
 * runs it, and the server sends the answer. Only one thread at a time owns it. */
#pragma once

#include "common/base/base.h"

#include "gateway/limits.h"
#include "gateway/routes.h"
#include "gateway/token.h"

#include <microhttpd.h>
#include <pthread.h>

struct exchange;
struct mcp_call;
struct relay;

enum { REQUEST_ID_SIZE = 65, ETAG_SIZE = 96, POLL_ID_SIZE = 37 };

struct answer {
    unsigned status;                 /* 0: none yet */
    char *body;                      /* free(); NULL: empty */
    size_t length;                   /* bytes */
    const unsigned char *fixed_body; /* used instead of body, never freed; NULL: none */
    int fd; /* if has_fd: the body is `length` bytes of this file from `offset`; closed */
    bool has_fd;
    int64_t offset;
    struct relay *relay;      /* used instead of all these: from a bucket; relay_free() */
    const char *content_type; /* never freed; NULL: JSON */
    bool is_problem;
    char etag[ETAG_SIZE];      /* "" for none */
    json_t *headers;           /* additional headers, an object of texts; NULL: none */
    int retry_after_s;         /* 0: none */
    char methods[64];          /* value of Allow; "" for none */
    const char *cache_control; /* static text; NULL: depends on whether there is an ETag */
};
void answer_deinit(struct answer *answer);

/* Adds a header; without memory it is missing. */
void answer_set_header(struct answer *answer, const char *name, const char *value);

/* Replaces the body by a text, which the answer takes over; NULL: none. */
void answer_set_body(struct answer *answer, char *body);

/* For an answer {"feed": …}: the body becomes that text, an Atom feed. */
void answer_become_feed(struct exchange *exchange);

/* The body as JSON, which the caller owns; NULL if it is none. */
json_t *answer_json(const struct answer *answer);

struct cv_store;
struct admission;
struct media_settings;
struct upload_part;

enum access { ACCESS_READ, ACCESS_HEAD, ACCESS_WRITE }; /* GET; HEAD; any other method */

struct exchange {
    struct server *server;
    const struct admission *admission;
    const struct media_settings *media;
    struct MHD_Connection *connection;
    struct exchange *next;        /* the next one in a pool's queue, or of those that wait */
    struct exchange *next_poll;   /* if it waits_for a job: the next long poll */
    char waits_for[POLL_ID_SIZE]; /* the id of the job for whose end it waits; "": it never has */
    uint64_t caller;              /* by which turns are taken; set when it is queued */
    int64_t turn;                 /* in a queue */
    const enum step *at; /* its step, in a list that STEP_SEND ends; NULL: before the first */
    enum access access;
    char *target; /* target of the request line, as received */
    char id[REQUEST_ID_SIZE];
    const struct operation *operation; /* NULL: there is none, and the request is refused */
    char address[ADDRESS_TEXT_SIZE];   /* the client's address */
    struct principal principal;
    struct rate_state rate;
    const char
        *once_key; /* value of the header Idempotency-Key, borrowed from the library; NULL: none */
    const char *if_match;     /* value of If-Match, borrowed likewise; NULL: none */
    struct cv_buffer body;    /* if the operation takes bytes: those not written yet */
    struct upload_part *part; /* the part of an upload that is being received; NULL: none */
    uint64_t received;        /* bytes of the body so far */
    json_t *values;           /* checked parameters */
    struct mcp_call *call;    /* of an agent: what it asks for; mcp_call_free(); NULL: none */
    json_t *entry; /* what lets somebody in, and is neither recorded nor kept; NULL: nothing */
    char *cookie;  /* cookie for a successful answer; NULL: none */
    struct answer answer;
    int64_t began_ms;
    int64_t queued_ms;    /* when it was put into a queue the last time */
    bool is_body_dropped; /* the body is not kept, and the connection is closed after the answer */
    bool is_recorded;     /* it is in the audit log already, or has changed nothing */
};

/* A header of the request, borrowed from the library; NULL: none. */
const char *exchange_header(const struct exchange *exchange, const char *name);

/* Refusals according to RFC 9457. Each kind has its status, type and title (exchange.c). */
enum refusal {
    REFUSE_BAD_REQUEST,
    REFUSE_UNAUTHORIZED,
    REFUSE_FORBIDDEN,
    REFUSE_NOT_FOUND,
    REFUSE_METHOD,
    REFUSE_CONFLICT,
    REFUSE_UNDER_WAY,
    REFUSE_WRONG_STATE,
    REFUSE_OFFSET,
    REFUSE_NO_TUS,
    REFUSE_LENGTH,
    REFUSE_CHANGED,
    REFUSE_TOO_LARGE,
    REFUSE_MEDIA_TYPE,
    REFUSE_NO_VIDEO,
    REFUSE_RANGE,
    REFUSE_IDEMPOTENCY_KEY,
    REFUSE_LOCKED,
    REFUSE_TOO_MANY,
    REFUSE_INTERNAL,
    REFUSE_ENCODING,
    REFUSE_BUSY,
    REFUSE_DATABASE_AWAY,
    REFUSE_STORE_AWAY,
    REFUSE_TIMEOUT,
    REFUSE_NO_ROOM,
};

/* Replaces the answer by a refusal. `detail` is a line that a person can act on. Never fails:
 * without memory the body is empty. */
void exchange_refuse(struct exchange *exchange, enum refusal refusal, const char *detail);

/* The same with a list of {"pointer", "detail"}; NULL: none. */
void exchange_refuse_faults(struct exchange *exchange, enum refusal refusal, const char *detail,
                            json_t *faults);

/* Refuses an object that does not exist or that the caller may not see: both answers are identical
 * except for the request's id. */
void exchange_refuse_missing(struct exchange *exchange);

/* Answers 503 because of the store, or 507 if its disk is full. `error` NULL: it was logged before. */
void exchange_refuse_store(struct exchange *exchange, const struct cv_error *error);

/* Refuses because a statement failed with a SQLSTATE ("": it did not reach the server). The
 * server's message is shown if a function of schema api raised it for the caller; the values in its
 * DETAIL are never shown. `parameter`: the one that the function says is wrong, or "". */
void exchange_refuse_sqlstate(struct exchange *exchange, const char *sqlstate, const char *message,
                              const char *parameter);

/* A hash of a text; never 0. */
uint64_t exchange_hash(const char *text, size_t length);

/* A hash of whoever asks: of who is signed in, else of the address; for an object, of the grant. An API
 * key counts as its address until it has been looked up. */
uint64_t exchange_caller(const struct exchange *exchange);

/* A queue of exchanges and the threads that take them from it. Callers take turns: one that has many
 * exchanges in the queue keeps another one waiting for one of them at each thread, not for all. */

enum { EXCHANGE_THREADS_MAX = 64 };

/* Embedded in the object that `run` gets; its members are private to exchange.c. */
struct exchange_queue {
    pthread_t threads[EXCHANGE_THREADS_MAX];
    int thread_count;
    pthread_mutex_t mutex; /* protects everything below */
    pthread_cond_t arrived;
    struct exchange *first; /* by turn */
    int64_t turn;           /* of the exchange that was taken last */
    size_t waiting;
    bool is_ending;
};

/* Starts `threads` threads (at most EXCHANGE_THREADS_MAX) that each call `run` with `opaque` once,
 * with signals blocked. After a failure no thread runs and nothing must be freed. */
CV_MUST_CHECK int exchange_queue_start(struct exchange_queue *queue, int threads,
                                       void *(*run)(void *opaque), void *opaque,
                                       struct cv_error *error);

/* For `run`: waits for the next exchange; NULL if the queue has been stopped and is empty. */
struct exchange *exchange_queue_wait(struct exchange_queue *queue);

/* Ends the threads after the queued exchanges. Later exchanges are refused. */
void exchange_queue_stop(struct exchange_queue *queue);

/* Frees it. Call it after exchange_queue_stop, when exchange_queue_add is not called any more. */
void exchange_queue_deinit(struct exchange_queue *queue);

/* Queues an exchange; false if the queue is full, its caller has a large part of it already, or it
 * has been stopped. */
CV_MUST_CHECK bool exchange_queue_add(struct exchange_queue *queue, struct exchange *exchange);
