/* What /metrics shows of a worker; costs nothing where nobody listens. */
#pragma once

#include "common/worker/supervisor.h"

/* Shows all counters of this worker, at zero. */
void cv_supervisor_count_start(struct cv_supervisor *supervisor);

/* A claim was answered, by an empty list perhaps. */
void cv_supervisor_count_claim(struct cv_supervisor *supervisor, const struct cv_job_list *list);

/* A job has ended. */
void cv_supervisor_count_end(struct cv_supervisor *supervisor, const struct cv_slot *slot,
                             enum cv_end end);

void cv_supervisor_count_disk(struct cv_supervisor *supervisor, const struct cv_disk *disk);
void cv_supervisor_count_store_disk(struct cv_supervisor *supervisor, const struct cv_disk *disk);

void cv_supervisor_count_store(struct cv_supervisor *supervisor, bool refuses);

/* The loop has turned. */
void cv_supervisor_count_turn(struct cv_supervisor *supervisor);
