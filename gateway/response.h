/* An exchange's answer as the library's response: its headers, its body. */
#pragma once

#include "gateway/exchange.h"

/* Whether the answer goes on as long as its reader wants. */
bool response_is_stream(const struct exchange *exchange);

/* Whether a list of ETags, or "*", names this one. They are compared weakly: proxies that compress make every ETag weak. */
bool response_is_named(const char *given, const char *etag);

/* Whether If-None-Match names the answer's ETag (RFC 9110, 13.1.2), where the operation answers 304. */
bool response_is_known(const struct exchange *exchange);

/* The response with the body, which it takes over; NULL: out of memory. */
struct MHD_Response *response_make(struct answer *answer);

/* Lets the body go. */
void response_forget_body(struct answer *answer);

/* All headers; false: out of memory. */
CV_MUST_CHECK bool response_add_headers(struct MHD_Response *response,
                                        const struct exchange *exchange);

/* An object of a bucket that passes through the gateway: threads of the store read it a piece at a time, whenever its reader
 * has taken the piece before, so that each reader costs one piece of memory however large the object is. */

/* Makes the answer the `length` bytes of an object from `offset`. 0, or CV_ERROR_OUT_OF_MEMORY. */
CV_MUST_CHECK int relay_begin(struct exchange *exchange, const char *key, int64_t offset,
                              int64_t length, struct cv_error *error);

/* The response for an answer that relay_begin() made. `hand_over` suspends the connection until a thread of the store has
 * done exchange->work; false: too much is under way. NULL: out of memory. */
struct MHD_Response *relay_respond(struct exchange *exchange, bool (*hand_over)(struct exchange *));

void relay_free(struct relay *relay);
