/* Whether a worker can work at all: a thread that probes its store (cv_store_probe) and its installation (the
 * stage's check) at the start, when a failed attempt gives reason to doubt them, and again and again while one
 * refuses. The supervisor's loop asks and looks; it never waits. Called by the loop's thread. */
#pragma once

#include "common/store/store.h"

enum { CV_WATCH_TROUBLE_SIZE = 512 };

struct cv_watch;

struct cv_watch_params {
    struct cv_store *store; /* taken over, whatever happens; NULL: the stage has none */
    enum cv_store_access access;
    int (*check)(struct cv_error *error); /* struct cv_stage's; NULL: there is nothing to check */
    int64_t again_ms;                     /* between two probes of what refuses */
};

struct cv_watch_news {
    uint64_t answered;  /* questions up to this number are answered */
    int64_t refused_at; /* when the last probe that failed ended, monotonic; INT64_MIN: none did */
    bool is_installation;                /* the trouble is the installation's, not the store's */
    char trouble[CV_WATCH_TROUBLE_SIZE]; /* why nothing can be done; "": it can */
};

/* Asks the first question: nothing is known before it is answered. */
CV_MUST_CHECK int cv_watch_start(const struct cv_watch_params *params, struct cv_watch **ret_watch,
                                 struct cv_error *error);

/* Ends a probe that is under way, and the thread. NULL is allowed. */
void cv_watch_stop(struct cv_watch *watch);

/* Asks for a probe that begins after this moment; returns the question's number, 1 or more. */
uint64_t cv_watch_ask(struct cv_watch *watch);

/* What is known by now. */
struct cv_watch_news cv_watch_look(struct cv_watch *watch);

/* Readable when there is news since the last cv_watch_drain. */
int cv_watch_fd(const struct cv_watch *watch);
void cv_watch_drain(struct cv_watch *watch);
