/* A slot: a job from its claim to the end of its stage process. */
#pragma once

#include "common/worker/supervisor.h"

/* Starts the stage of the slot's job. If this machine cannot start it, the job is given back and
 * none is claimed for a while. A payload that cannot be read fails the job. */
void cv_slot_start(struct cv_supervisor *supervisor, int index, int64_t lease_end);

/* Asks the stage to stop for a reason, or kills it at once. */
void cv_slot_stop(struct cv_supervisor *supervisor, struct cv_slot *slot,
                  enum cv_stop_reason reason, bool at_once);

/* Checks time limit, lease and cancellation, and kills a stage that was asked to stop and did not. */
void cv_slot_watch(struct cv_supervisor *supervisor, int index, int64_t now);

/* Exchanges data with the stage and notices its exit; when the stage is over, the slot's phase
 * becomes CV_SLOT_SETTLING. */
void cv_slot_pump(struct cv_supervisor *supervisor, int index);

/* The time at which cv_slot_watch must be called next. */
int64_t cv_slot_next_event(struct cv_supervisor *supervisor, int index);

/* Starts the removal of a finished attempt's scratch directory, which may take long; may be called
 * again. */
void cv_slot_remove_scratch(struct cv_supervisor *supervisor, struct cv_slot *slot);

/* Frees the slot and everything of its attempt; the next claim is due at once. */
void cv_slot_clear(struct cv_supervisor *supervisor, int index);
