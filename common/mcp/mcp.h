/* The Model Context Protocol (https://modelcontextprotocol.io/specification), by which agents use this
 * system: messages in, messages out. Reading and writing them, and running operations, is the caller's
 * work: the gateway speaks it over HTTP, `cortana mcp` over standard input and output.
 *
 * Tools are the operations of the API whose description in gateway/operations has a name for a tool;
 * resources are videos and their transcripts. Functions may be called by any thread. */
#pragma once

#include "common/base/base.h"
#include "common/store/store.h"

#include <jansson.h>

struct mcp_tool {
    const char *name;
    const char *operation; /* of the API; the tool's arguments are its parameters */
    const char *next;      /* an operation that is run with its answer (mcp_next); NULL: none */
};

/* Generated from the OpenAPI document (scripts/mcp_tools.py). */
extern const struct mcp_tool mcp_tools[];
extern const size_t mcp_tool_count;
extern const char mcp_tools_text[]; /* the answer to tools/list, as JSON */

enum mcp_shape { MCP_TOOL, MCP_VIDEOS, MCP_VIDEO, MCP_TRANSCRIPT };

/* What a message asks for. */
struct mcp_call {
    json_t *id;            /* of the request; NULL: a notification, which gets no answer */
    json_t *answer;        /* the whole answer, if no operation has to be run; else NULL */
    const char *operation; /* the operation to run; NULL: none. A name in mcp_tools, or static */
    const char *next;      /* the operation to run after it; NULL: none */
    json_t *values;        /* the parameters of `operation`, unchecked */
    enum mcp_shape shape;  /* of the answer */
    char *uri;             /* of the resource; NULL: none */
    json_t *first;         /* the answer of `operation`, if `next` is run, too */
    char *picture;         /* base64; NULL: none */
};

/* Whether a version of the protocol, as in the header MCP-Protocol-Version, is understood here. */
bool mcp_knows_version(const char *version);

/* Reads a message. The caller frees *ret_call with mcp_call_free(). A message that is wrong gets an
 * answer that says so; CV_ERROR_OUT_OF_MEMORY is the only failure. */
CV_MUST_CHECK int mcp_read(const json_t *message, struct mcp_call **ret_call,
                           struct cv_error *error);
void mcp_call_free(struct mcp_call *call);
CV_DEFINE_CLEANUP(struct mcp_call *, mcp_call_free)

/* The parameters of call->next after the answer `body` of call->operation, which is kept for the
 * answer; the caller owns them. NULL: nothing is to be run, or out of memory. */
json_t *mcp_next(struct mcp_call *call, json_t *body);

/* Adds the picture (JPEG) that the answer `body` of an operation names to the answer. If it is not in the
 * store any more, or without memory, it is missing. Fails as cv_store_get(). */
CV_MUST_CHECK int mcp_add_picture(struct mcp_call *call, struct cv_store *store, const json_t *body,
                                  struct cv_error *error);

/* Makes the answer of the last operation's status (of HTTP) and body (borrowed; NULL: none); the caller
 * owns it. A refusal is an answer, too, which tells the agent what is wrong. NULL: out of memory. */
json_t *mcp_answer(const struct mcp_call *call, unsigned status, const json_t *body);
