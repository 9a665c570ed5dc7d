/* One request on its way through the gateway: read and checked by a thread of the server, run by a thread of the pool,
 * answered by the server. Only one thread at a time has it. */
#pragma once

#include "gateway/answer.h"
#include "gateway/routes.h"
#include "gateway/token.h"

#include <microhttpd.h>

struct exchange {
    struct server *server;
    struct MHD_Connection *connection;
    struct exchange *next; /* in the pool's queue */
    char *target;          /* of the request line, as it was sent */
    char id[REQUEST_ID_SIZE];
    const struct operation *operation; /* NULL: none, refused */
    struct principal principal;
    struct cv_buffer body;
    json_t *values; /* checked parameters */
    char *cookie;   /* for the answer, where it is a success; NULL: none */
    struct answer answer;
    int64_t began_ms;
    bool is_begun;
    bool is_write; /* neither GET nor HEAD */
    bool is_body_too_long;
};
