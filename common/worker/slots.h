/* A slot: a job from its claim to the end of its stage process. */
#pragma once

#include "common/worker/supervisor.h"

/* Starts the stage of the slot's job. Where this machine cannot, the job is given back and no other
 * is claimed for a while; a payload that cannot be read fails the job. */
void cv_slot_start(struct cv_supervisor *supervisor, int index, int64_t lease_end);

/* Asks the stage to stop for a reason, or kills it at once. */
void cv_slot_stop(struct cv_supervisor *supervisor, struct cv_slot *slot,
                  enum cv_stop_reason reason, bool at_once);

/* Time limit, lease, cancellation, kill after a stop. */
void cv_slot_watch(struct cv_supervisor *supervisor, int index, int64_t now);

/* Moves bytes, notes the exit; when the stage is over the slot is to be settled. */
void cv_slot_pump(struct cv_supervisor *supervisor, int index);

/* When cv_slot_watch has something to do next. */
int64_t cv_slot_next_event(struct cv_supervisor *supervisor, int index);

/* Lets the scratch directory of an attempt that is over go, which takes its time; again is no harm. */
void cv_slot_remove_scratch(struct cv_supervisor *supervisor, struct cv_slot *slot);

/* Frees the slot and all that belonged to the attempt; the next claim is due at once. */
void cv_slot_clear(struct cv_supervisor *supervisor, int index);
