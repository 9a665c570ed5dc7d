/* The loop's database connection: claims, notifications and the check of the schema. */
#pragma once

#include "common/worker/supervisor.h"

/* Whether there is a connection, as far as is known without asking the server. */
bool cv_supervisor_is_connected(const struct cv_supervisor *supervisor);

/* Connects if there is no connection and it is time to try. Fails only if the first connection is
 * refused permanently. */
CV_MUST_CHECK int cv_supervisor_connect(struct cv_supervisor *supervisor, int64_t now,
                                        struct cv_error *error);

/* A worker needs two connections, one to claim jobs and one to keep leases, and claims nothing with
 * only one. If the keeper cannot connect because the server has no connections left, the worker
 * gives its own back and tries again later. */
void cv_supervisor_watch_keeper(struct cv_supervisor *supervisor, int64_t now);

/* If it is time, checks whether this program can work with the database's schema; otherwise nothing
 * is claimed. */
void cv_supervisor_check_schema(struct cv_supervisor *supervisor, int64_t now);

/* Learns from a change of the database whether its disk has room: `failure` is the change's, NULL: it
 * was written. What wrote nothing (an empty queue, a lost lease) tells nothing. */
void cv_supervisor_watch_database_room(struct cv_supervisor *supervisor,
                                       const struct cv_error *failure);

/* Reads notifications about new jobs and about jobs to stop. */
void cv_supervisor_read_notifications(struct cv_supervisor *supervisor);

int cv_supervisor_count_free(const struct cv_supervisor *supervisor);

/* Claims jobs for free slots, if it is time. */
CV_MUST_CHECK int cv_supervisor_claim(struct cv_supervisor *supervisor, int64_t now,
                                      struct cv_error *error);
