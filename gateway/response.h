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
