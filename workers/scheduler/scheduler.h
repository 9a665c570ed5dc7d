/* The scheduler: fires schedules, does what triggers want of events, and keeps the house.
 *
 * All rules are SQL functions (sql/migrations/0013_triggers.sql). Each is one statement, so that
 * nothing is held for a scheduler that has gone: any number of them may run, and die, at once. Two
 * threads with a connection each, so that upkeep that takes its time makes no schedule late.
 */
#pragma once

#include "common/daemon/daemon.h"

#define SCHEDULER_JOB_TYPE "scheduler" /* in its row among the workers */

/* One of the two: a connection and what is done with it. */
struct scheduler_part {
    struct cv_daemon *daemon;
    int64_t poll_ms;     /* looks at least this often, whatever is foreseen */
    const char *name;    /* of the connection, too */
    const char *channel; /* what wakes it; NULL: nothing */
    int64_t statement_ms;
    /* Does what is due; *ret_wait_ms is when to come again (at most poll_ms is waited). */
    int (*round)(struct scheduler_part *part, int64_t *ret_wait_ms, struct cv_error *error);
    struct cv_db *db;
    bool is_once;      /* it is gone before anybody looks: no row among the workers */
    int64_t schema_at; /* monotonic: when to look at the schema next */
    int64_t nodes_at;  /* monotonic: upkeep.c */
};

/* ---- loop.c ---- */

CV_MUST_CHECK int scheduler_open(struct scheduler_part *part, struct cv_error *error);

/* Rounds until the cancel object is raised. A database that is away is waited for; a failure that
 * no waiting helps ends it. */
CV_MUST_CHECK int scheduler_run(struct scheduler_part *part, struct cv_error *error);

/* ---- fire.c ---- */

/* Schedules and events. */
CV_MUST_CHECK int scheduler_fire(struct scheduler_part *part, int64_t *ret_wait_ms,
                                 struct cv_error *error);

/* ---- upkeep.c ---- */

/* Tasks that are due, sleeping nodes, and this scheduler's row among the workers. */
CV_MUST_CHECK int scheduler_keep(struct scheduler_part *part, int64_t *ret_wait_ms,
                                 struct cv_error *error);
