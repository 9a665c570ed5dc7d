/* Whether the store of a worker works: a thread that probes it (cv_store_probe) at the start, when a
 * failed attempt gives reason to doubt it, and again and again while it refuses. The supervisor's loop
 * asks and looks; it never waits for the store. Called by the loop's thread. */
#pragma once

#include "common/store/store.h"

enum { CV_STORE_TROUBLE_SIZE = 512 };

struct cv_store_watch;

struct cv_store_watch_params {
    struct cv_store *store; /* taken over, whatever happens */
    enum cv_store_access access;
    int64_t again_ms; /* between two probes of a store that refuses */
};

struct cv_store_news {
    uint64_t answered;  /* questions up to this number are answered */
    int64_t refused_at; /* when the last probe that failed ended, monotonic; INT64_MIN: none did */
    char trouble[CV_STORE_TROUBLE_SIZE]; /* why the store cannot be used; "": it can be */
};

/* Asks the first question: nothing is known before it is answered. */
CV_MUST_CHECK int cv_store_watch_start(const struct cv_store_watch_params *params,
                                       struct cv_store_watch **ret_watch, struct cv_error *error);

/* Ends a probe that is under way, and the thread. NULL is allowed. */
void cv_store_watch_stop(struct cv_store_watch *watch);

/* Asks for a probe that begins after this moment; returns the question's number, 1 or more. */
uint64_t cv_store_watch_ask(struct cv_store_watch *watch);

/* What is known by now. */
struct cv_store_news cv_store_watch_look(struct cv_store_watch *watch);

/* Readable when there is news since the last cv_store_watch_drain. */
int cv_store_watch_fd(const struct cv_store_watch *watch);
void cv_store_watch_drain(struct cv_store_watch *watch);
