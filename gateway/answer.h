/* What a request is answered with, and refusals as RFC 9457 has them. */
#pragma once

#include "common/base/base.h"

struct relay;

enum { REQUEST_ID_SIZE = 65, ETAG_SIZE = 96, CONTENT_TYPE_SIZE = 96 };

struct answer {
    unsigned status;                 /* 0: none yet */
    char *body;                      /* free(); NULL: empty */
    size_t length;                   /* bytes */
    const unsigned char *fixed_body; /* in place of body, never freed; NULL: none */
    int fd; /* where has_fd: the body is `length` bytes of this file from `offset`; closed */
    bool has_fd;
    int64_t offset;
    struct relay *relay;                 /* in place of all these, from a bucket; relay_free() */
    const char *content_type;            /* never freed; NULL: object_type, else JSON */
    char object_type[CONTENT_TYPE_SIZE]; /* of an object, as the store has it; "" for none */
    bool is_problem;
    char etag[ETAG_SIZE];      /* "" for none */
    json_t *headers;           /* further ones, an object of texts; NULL: none */
    int retry_after_s;         /* 0: none */
    char methods[64];          /* for Allow; "" for none */
    const char *cache_control; /* static text; NULL: by whether there is an ETag */
};
void answer_deinit(struct answer *answer);

/* Why a request is refused. `title` is the same for every refusal of a kind, `detail` a line that a person can act on. */
struct problem {
    unsigned status;
    const char *kind; /* "not-found": the end of the type's URI */
    const char *title;
    const char *detail;
    const json_t *faults; /* list of {"pointer", "detail"}; NULL: none */
};

/* Makes the answer a refusal, in place of what was in it. Never fails: without memory the body is empty. */
void answer_refuse(struct answer *answer, const struct problem *problem, const char *request_id);

/* The same for a statement that failed with a SQLSTATE ("": it never reached the server). The server's message is
 * shown where the functions of schema api speak to the caller, and never the values in its DETAIL. */
void answer_refuse_sqlstate(struct answer *answer, const char *sqlstate, const char *message,
                            const char *request_id);

/* What does not exist, and what the caller may not see: the same to the byte but for the request's id. */
void answer_not_found(struct answer *answer, const char *request_id);
