/* Live progress: streams of server-sent events. One thread with one connection reads the timeline while somebody
 * listens; a notification wakes it early and carries nothing.
 *
 * Order and resumption: an event's position is the id of the transaction that wrote it and its own id. The tail passes
 * only transactions that are over together with all older ones, so that what commits late is neither lost nor
 * overtaken. A client that comes back with its last position gets what it missed, from any gateway.
 */
#pragma once

#include "gateway/exchange.h"

struct events;

struct events_params {
    struct cv_cancel *cancel; /* an abort ends statements */
    int streams;              /* of one caller at once; 0: no bound */
};

CV_MUST_CHECK int events_start(const struct events_params *params, struct events **ret_events,
                               struct cv_error *error);

/* Ends all streams and joins the thread; a stream that comes later ends at once. */
void events_quiesce(struct events *events);

/* After the server has ended. */
void events_stop(struct events *events);
CV_DEFINE_CLEANUP(struct events *, events_stop)

/* Whether a caller (principal.name) may open one more stream. Two that ask at the same time may both be told so. */
CV_MUST_CHECK bool events_has_room(struct events *events, const char *caller);

/* The response that streams what api.events has allowed (exchange->answer.body). NULL: out of memory. */
struct MHD_Response *events_respond(struct events *events, const struct exchange *exchange);
