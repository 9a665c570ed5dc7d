/* Converts an exchange's answer to the library's response: headers and body. */
#pragma once

#include "gateway/exchange.h"

/* Whether the answer is a stream, which continues until the client leaves. */
bool response_is_stream(const struct exchange *exchange);

/* Whether a list of ETags, or "*", includes this one. They are compared weakly, because proxies
 * that compress make every ETag weak. */
bool response_is_named(const char *given, const char *etag);

/* Whether If-None-Match includes the answer's ETag (RFC 9110, 13.1.2) and the operation supports
 * 304. */
bool response_is_known(const struct exchange *exchange);

/* Makes the response with the body, which it takes over; NULL: out of memory. */
struct MHD_Response *response_make(struct answer *answer);

/* Frees the body. */
void response_forget_body(struct answer *answer);

/* Adds all headers; false: out of memory. */
CV_MUST_CHECK bool response_add_headers(struct MHD_Response *response,
                                        const struct exchange *exchange);

/* Sends an object of a bucket through the gateway: store threads read it piece by piece, the next
 * piece when the client has taken the last one. So each client costs one piece of memory, however
 * large the object is. */

/* Sets the answer to `length` bytes of an object from `offset`. 0, or CV_ERROR_OUT_OF_MEMORY. */
CV_MUST_CHECK int relay_begin(struct exchange *exchange, const char *key, int64_t offset,
                              int64_t length, struct cv_error *error);

/* Makes the response for an answer of relay_begin(). `hand_over` suspends the connection until a
 * store thread has called relay_read(); it returns false if too many requests are under way. NULL:
 * out of memory. */
struct MHD_Response *relay_respond(struct exchange *exchange, bool (*hand_over)(struct exchange *));

/* Reads the next piece; for a store thread. */
int relay_read(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

void relay_free(struct relay *relay);
