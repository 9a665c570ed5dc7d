/* Live progress as streams of server-sent events. One thread with one connection reads the timeline
 * while there are streams; a notification wakes it early but contains nothing.
 *
 * Order and resumption: the position of an event is the id of the transaction that wrote it and its
 * own id. The thread only passes transactions that have ended together with all older ones, so that
 * events that are committed late are neither lost nor out of order. A client that returns with its
 * last position gets the events that it missed, from any gateway. */
#pragma once

#include "gateway/exchange.h"

struct events;

struct events_params {
    struct cv_cancel *cancel; /* an abort ends statements */
    int streams; /* streams of one caller at once, of which one more ends the oldest; 0: no limit */
};

CV_MUST_CHECK int events_start(const struct events_params *params, struct events **ret_events,
                               struct cv_error *error);

/* Ends all streams and the thread; later streams end at once. */
void events_quiesce(struct events *events);

/* Frees it; call it after the server has ended. */
void events_stop(struct events *events);
CV_DEFINE_CLEANUP(struct events *, events_stop)

/* Makes the response that streams the topics allowed by api.events (exchange->answer.body). NULL:
 * out of memory. */
struct MHD_Response *events_respond(struct events *events, const struct exchange *exchange);
