/* Tells whether a worker can work at all. A thread probes its store (cv_store_probe) and its
 * installation (the stage's check) at the start, after a failed attempt that gives reason to doubt
 * them, and repeatedly while one refuses. The supervisor's loop asks for probes and reads their
 * results without waiting. Called by the loop's thread. */
#pragma once

#include "common/store/store.h"

enum { CV_WATCH_TROUBLE_SIZE = 512 };

struct cv_watch;

struct cv_watch_params {
    struct cv_store *store; /* ownership passes, even on failure; NULL: the stage has no store */
    enum cv_store_access access;
    int (*check)(struct cv_error *error); /* struct cv_stage's check; NULL: there is none */
    int64_t again_ms;                     /* between two probes while one refuses */
};

struct cv_watch_news {
    uint64_t answered; /* questions up to this number are answered */
    int64_t
        refused_at; /* when the last failed probe ended, monotonic; INT64_MIN: none has failed */
    bool is_installation;                /* the installation refuses, not the store */
    char trouble[CV_WATCH_TROUBLE_SIZE]; /* why the worker cannot work; "": it can */
};

/* Starts the thread and asks the first question; nothing is known until it is answered. */
CV_MUST_CHECK int cv_watch_start(const struct cv_watch_params *params, struct cv_watch **ret_watch,
                                 struct cv_error *error);

/* Aborts a probe under way, and ends the thread. NULL is allowed. */
void cv_watch_stop(struct cv_watch *watch);

/* Asks for a probe that begins after this moment; returns the question's number, 1 or more. */
uint64_t cv_watch_ask(struct cv_watch *watch);

/* Returns what is known now. */
struct cv_watch_news cv_watch_look(struct cv_watch *watch);

/* A descriptor, readable when there is news since the last cv_watch_drain. */
int cv_watch_fd(const struct cv_watch *watch);
void cv_watch_drain(struct cv_watch *watch);
