/* Logs of jobs that have ended, as objects logs/pipeline/{job_id}.json: the job, its attempts with the ends of their
 * outputs, and its events, without secrets. A thread writes them, so that the supervisor's loop never waits for the
 * store; where the store is away, or logs come faster than it takes them, they are dropped, for everything in them
 * stands in the database, too. Called by the loop's thread. */
#pragma once

#include "common/base/base.h"

struct cv_job_logs;

/* *ret_logs is NULL where none are to be written: CORTANA_LOG_DAYS is 0, or no store is configured. */
CV_MUST_CHECK int cv_job_logs_start(struct cv_job_logs **ret_logs, struct cv_error *error);

/* Writes what waits, for three seconds at most, and ends. NULL is none. */
void cv_job_logs_stop(struct cv_job_logs *logs);

/* Writes a log soon; takes `text` (from malloc) over. */
void cv_job_logs_write(struct cv_job_logs *logs, const char *job_id, char *text);
