/* What the work stands on: the store, the installation and the disks. */
#pragma once

#include "common/worker/supervisor.h"

/* Opens the store, where the stage has one, and begins to watch it and the installation. */
CV_MUST_CHECK int cv_supervisor_start_watch(struct cv_supervisor *supervisor,
                                            struct cv_error *error);

/* Looks how full the disks of the scratch directory and of a directory store are, if it is time, and
 * notes it in the database; and whether the watch has news. */
void cv_supervisor_watch_environment(struct cv_supervisor *supervisor, int64_t now);

/* Nothing is claimed while a disk is full, or while store or installation refuse or are not known to work. */
bool cv_supervisor_environment_works(const struct cv_supervisor *supervisor);

/* An attempt has failed: where that may be the fault of the store, the installation or a disk, they are looked at. */
void cv_slot_doubt_environment(struct cv_supervisor *supervisor, struct cv_slot *slot);

/* Whether the answer is still missing. As soon as it is there, an attempt that the environment is to
 * blame for is marked CV_STOP_ENVIRONMENT: the job will be given back, uncounted. */
bool cv_slot_is_in_doubt(struct cv_supervisor *supervisor, struct cv_slot *slot);
