/* Stores logs of finished jobs as objects logs/pipeline/{job_id}.json: the job, its attempts with
 * the ends of their outputs, and its events, without secrets. A thread writes them, so that the
 * supervisor's loop never waits for the store. If the store is away, or logs come faster than it
 * accepts them, logs are dropped: the database has everything that is in them. Called by the loop's
 * thread. */
#pragma once

#include "common/base/base.h"

struct cv_job_logs;

/* *ret_logs is NULL if no logs are to be written: CORTANA_LOG_DAYS is 0, or no store is configured. */
CV_MUST_CHECK int cv_job_logs_start(struct cv_job_logs **ret_logs, struct cv_error *error);

/* Writes the queued logs, for at most three seconds, and ends the thread. NULL is allowed. */
void cv_job_logs_stop(struct cv_job_logs *logs);

/* Queues a log for writing; takes ownership of `text` (from malloc). */
void cv_job_logs_write(struct cv_job_logs *logs, const char *job_id, char *text);
