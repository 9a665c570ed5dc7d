/* The loop's database connection, and what comes in through it. */
#pragma once

#include "common/worker/supervisor.h"

/* There is a connection, as far as one can know without asking the server. */
bool cv_supervisor_is_connected(const struct cv_supervisor *supervisor);

/* Connects if need be and if it is time; fails only when a first connection is refused for good. */
CV_MUST_CHECK int cv_supervisor_connect(struct cv_supervisor *supervisor, int64_t now,
                                        struct cv_error *error);

/* A worker needs two connections, one to claim and one to keep leases with, and claims nothing with one
 * alone. Where there is no room for everybody's second, it gives the first back and comes again later. */
void cv_supervisor_watch_keeper(struct cv_supervisor *supervisor, int64_t now);

/* Looks, if it is time, whether the schema is one that this program may work on: nothing is claimed
 * while it is not. */
void cv_supervisor_check_schema(struct cv_supervisor *supervisor, int64_t now);

/* New jobs, and jobs to stop. */
void cv_supervisor_read_notifications(struct cv_supervisor *supervisor);

int cv_supervisor_count_free(const struct cv_supervisor *supervisor);

/* Fills free slots if it is time to look for jobs. */
CV_MUST_CHECK int cv_supervisor_claim(struct cv_supervisor *supervisor, int64_t now,
                                      struct cv_error *error);
