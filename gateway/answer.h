/* The answer to a request, and refusals according to RFC 9457. */
#pragma once

#include "common/base/base.h"

struct relay;

enum { REQUEST_ID_SIZE = 65, ETAG_SIZE = 96, CONTENT_TYPE_SIZE = 96 };

struct answer {
    unsigned status;                 /* 0: none yet */
    char *body;                      /* free(); NULL: empty */
    size_t length;                   /* bytes */
    const unsigned char *fixed_body; /* used instead of body, never freed; NULL: none */
    int fd; /* if has_fd: the body is `length` bytes of this file from `offset`; closed */
    bool has_fd;
    int64_t offset;
    struct relay *relay;      /* used instead of all these: from a bucket; relay_free() */
    const char *content_type; /* never freed; NULL: object_type, else JSON */
    char object_type[CONTENT_TYPE_SIZE]; /* of an object in the store; "" for none */
    bool is_problem;
    char etag[ETAG_SIZE];      /* "" for none */
    json_t *headers;           /* additional headers, an object of texts; NULL: none */
    int retry_after_s;         /* 0: none */
    char methods[64];          /* value of Allow; "" for none */
    const char *cache_control; /* static text; NULL: depends on whether there is an ETag */
};
void answer_deinit(struct answer *answer);

/* Why a request is refused. `title` is the same for all refusals of a kind; `detail` is a line that
 * a person can act on. */
struct problem {
    unsigned status;
    const char *kind; /* "not-found": the end of the type's URI */
    const char *title;
    const char *detail;
    const json_t *faults; /* list of {"pointer", "detail"}; NULL: none */
};

/* Replaces the answer by a refusal. Never fails: without memory the body is empty. */
void answer_refuse(struct answer *answer, const struct problem *problem, const char *request_id);

/* Refuses because a statement failed with a SQLSTATE ("": it did not reach the server). The
 * server's message is shown if a function of schema api raised it for the caller; the values in its
 * DETAIL are never shown. */
void answer_refuse_sqlstate(struct answer *answer, const char *sqlstate, const char *message,
                            const char *request_id);

/* Refuses an object that does not exist or that the caller may not see: both answers are identical
 * except for the request's id. */
void answer_not_found(struct answer *answer, const char *request_id);
