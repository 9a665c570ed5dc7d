/* What the header and the body of a request say, checked before anything is asked. Each function
 * refuses the request (exchange_refuse) that is wrong. Called by the server's threads, never for one
 * exchange at the same time. */
#pragma once

#include "gateway/exchange.h"

enum {
    BODY_MAX_BYTES = 1024 * 1024,
    /* of a body that is too long, read so that the client sees the answer */
    DISCARDED_MAX_BYTES = 16 * 1024 * 1024,
};

/* Gives a request its id, refuses one whose header two servers could interpret differently, and finds
 * the operation or the file of the page that it asks for. */
void request_begin(struct exchange *exchange, const char *method, const char *version);

/* Refuses a condition (If-Match, Idempotency-Key) that is malformed or that the operation does not
 * support, because ignoring it would be wrong. */
void request_check_conditions(struct exchange *exchange);

/* The bytes of the body by its Content-Length; 0: there is none, or it is no number. */
int64_t request_length(const struct exchange *exchange);

/* Refuses a body that is too long to be read to its end. */
void request_check_length(struct exchange *exchange);

/* Refuses a body in another form than the operation accepts. */
void request_check_form(struct exchange *exchange);

/* Checks the parameters of a complete request against the operation's description, into
 * exchange->values. */
void request_check_parameters(struct exchange *exchange);

/* Uses a header as a parameter: EventSource sends the last event's id only so, and tus the offset. */
void request_read_header(struct exchange *exchange);

/* Answers with the description of the API, or with its page (STEP_PAGE). */
void request_answer_document(struct exchange *exchange);
