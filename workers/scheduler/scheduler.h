/* The scheduler starts due schedules, runs the triggers of events, and does maintenance.
 *
 * All rules are SQL functions (sql/migrations/0013_triggers.sql). Each call is one statement, so that a
 * scheduler that dies leaves nothing locked: any number of them may run, and die, at once. Two threads
 * have a connection each, so that slow maintenance delays no schedule.
 */
#pragma once

#include "common/daemon/daemon.h"

#define SCHEDULER_JOB_TYPE "scheduler" /* in its row of the list of workers */

/* One of the two threads: a connection and its work. */
struct scheduler_part {
    struct cv_daemon *daemon;
    int64_t poll_ms;     /* the longest time between two rounds */
    const char *name;    /* also of the connection */
    const char *channel; /* notifications that start a round; NULL: none */
    int64_t statement_ms;
    /* Does the work that is due; *ret_wait_ms is the time until the next round, of which at most
     * poll_ms are waited. */
    int (*round)(struct scheduler_part *part, int64_t *ret_wait_ms, struct cv_error *error);
    struct cv_db *db;
    bool is_once;      /* runs one round only, so it has no row in the list of workers */
    int64_t schema_at; /* monotonic: when to check the schema next */
    int64_t nodes_at;  /* monotonic: when to wake nodes next (upkeep.c) */
};

/* ---- loop.c ---- */

CV_MUST_CHECK int scheduler_open(struct scheduler_part *part, struct cv_error *error);

/* Runs rounds until the cancel object is raised. Waits while the database is away; ends with a
 * failure that waiting cannot cure. */
CV_MUST_CHECK int scheduler_run(struct scheduler_part *part, struct cv_error *error);

/* ---- fire.c ---- */

/* Starts due schedules and runs the triggers of events. */
CV_MUST_CHECK int scheduler_fire(struct scheduler_part *part, int64_t *ret_wait_ms,
                                 struct cv_error *error);

/* ---- upkeep.c ---- */

/* Runs due maintenance tasks, wakes sleeping nodes, and updates this scheduler's row in the list
 * of workers. */
CV_MUST_CHECK int scheduler_keep(struct scheduler_part *part, int64_t *ret_wait_ms,
                                 struct cv_error *error);
