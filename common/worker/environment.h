/* Watches what all jobs of a worker depend on: the store, the installation and the disks. */
#pragma once

#include "common/worker/supervisor.h"

/* Opens the store if the stage has one, and starts to watch the store and the installation. */
CV_MUST_CHECK int cv_supervisor_start_watch(struct cv_supervisor *supervisor,
                                            struct cv_error *error);

/* If it is time, measures the disks of the scratch directory and of a directory store and records
 * them in the database; also handles news from the watch. */
void cv_supervisor_watch_environment(struct cv_supervisor *supervisor, int64_t now);

/* Whether jobs may be claimed: not while a disk is full, nor while the store or the installation
 * refuses or is not known to work. */
bool cv_supervisor_environment_works(const struct cv_supervisor *supervisor);

/* Call it after a failed attempt. If the store, the installation or a disk may be the cause, starts
 * a check of them. */
void cv_slot_doubt_environment(struct cv_supervisor *supervisor, struct cv_slot *slot);

/* Whether the result of that check is still missing. When it arrives and shows that the environment
 * caused the failure, the attempt is marked CV_STOP_ENVIRONMENT: the job is given back, and the
 * attempt does not count. */
bool cv_slot_is_in_doubt(struct cv_supervisor *supervisor, struct cv_slot *slot);
