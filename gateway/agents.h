/* Agents: the Model Context Protocol over HTTP (POST /api/v1/mcp). A message that calls a tool becomes the
 * tool's operation, with the caller's own rights; its answer, or refusal, becomes the tool's result. There
 * are no sessions and no streams: each message is a request. */
#pragma once

#include "common/mcp/mcp.h"
#include "common/store/store.h"

#include "gateway/exchange.h"

/* Reads the message in exchange->values and goes on with the operation that it asks for, or answers. */
void agents_read(struct exchange *exchange);

/* Goes on with the operation that follows the one that has answered. */
void agents_go_on(struct exchange *exchange);

/* Adds the picture that the answer names to the result. */
int agents_add_picture(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Replaces the answer of an operation that an agent has asked for by the message about it. Does nothing
 * for other requests, and for those without a valid credential. */
void agents_answer(struct exchange *exchange);
