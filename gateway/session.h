/* The session of those who search and play by this gateway. While there is one, the queue puts off
 * what may wait. */
#pragma once

#include "common/db/db.h"

#include "gateway/exchange.h"

#include <stdatomic.h>

struct session {
    atomic_int_least64_t searched_ms, played_ms; /* when that was last done; 0: never */
    char id[40];                                 /* "": not begun yet */
    int64_t told_ms, next_ms;
};

/* Records what was answered; any thread. */
void session_record(struct session *session, const struct exchange *exchange);

/* Reports to the queue that somebody searches or plays, at most once in ten seconds: one session for
 * all, because the queue asks only whether there is one. It ends a minute after the last use. A
 * standby is told nothing. One thread; `db` NULL or not connected: later. */
void session_report(struct session *session, struct cv_db *db);
