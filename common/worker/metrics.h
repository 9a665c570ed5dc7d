/* Counts what /metrics shows of a worker; does nothing if nobody listens. */
#pragma once

#include "common/worker/supervisor.h"

/* Creates all counters of this worker, with value 0. */
void cv_supervisor_count_start(struct cv_supervisor *supervisor);

/* Counts a claim that was answered, perhaps with an empty list. */
void cv_supervisor_count_claim(struct cv_supervisor *supervisor, const struct cv_job_list *list);

/* Counts a job that has ended. */
void cv_supervisor_count_end(struct cv_supervisor *supervisor, const struct cv_slot *slot,
                             enum cv_end end);

void cv_supervisor_count_disk(struct cv_supervisor *supervisor, const struct cv_disk *disk);
void cv_supervisor_count_store_disk(struct cv_supervisor *supervisor, const struct cv_disk *disk);

void cv_supervisor_count_store(struct cv_supervisor *supervisor, bool refuses);

/* Counts a turn of the loop. */
void cv_supervisor_count_turn(struct cv_supervisor *supervisor);
