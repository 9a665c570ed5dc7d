/* An object of a bucket that passes through the gateway: threads of the store read it a piece at a time, whenever its reader
 * has taken the piece before, so that each reader costs one piece of memory however large the object is. */
#pragma once

#include "gateway/exchange.h"

/* Makes the answer the `length` bytes of an object from `offset`. 0, or CV_ERROR_OUT_OF_MEMORY. */
CV_MUST_CHECK int relay_begin(struct exchange *exchange, const char *key, int64_t offset,
                              int64_t length, struct cv_error *error);

/* The response for an answer that relay_begin() made. `hand_over` suspends the connection until a thread of the store has
 * done exchange->work; false: too much is under way. NULL: out of memory. */
struct MHD_Response *relay_respond(struct exchange *exchange, bool (*hand_over)(struct exchange *));

void relay_free(struct relay *relay);
