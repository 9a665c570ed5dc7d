/* What jobs leave in the scratch directory, on a thread of its own: it measures the directories of running jobs,
 * which a stage may fill, and removes those of jobs that are over, a million files say, while the supervisor's
 * loop goes on. Called by the loop's thread. */
#pragma once

#include "common/worker/scratch.h"

#include <sys/types.h>

enum { CV_SCRATCH_TEXT_SIZE = 160 };

struct cv_scratch_watch;

/* For directories of `scratch`, which outlives it. Removes, too, what dead processes have left beside it. */
CV_MUST_CHECK int cv_scratch_watch_start(const struct cv_scratch *scratch, int slots,
                                         struct cv_scratch_watch **ret_watch,
                                         struct cv_error *error);

/* Ends what is under way, and the thread; what is not yet removed stays. NULL is allowed. */
void cv_scratch_watch_stop(struct cv_scratch_watch *watch);

/* From now on the slot's stage, process `pid`, has the directory `name`, until it is discarded. */
void cv_scratch_watch_add(struct cv_scratch_watch *watch, int slot, const char *name, pid_t pid,
                          const struct cv_scratch_usage *most);

/* Whether the directory has been seen to hold more than it may; says what in `text`. */
bool cv_scratch_watch_is_over(struct cv_scratch_watch *watch, int slot,
                              char text[CV_SCRATCH_TEXT_SIZE]);

/* The directory is not the slot's any more and goes, soon. */
CV_MUST_CHECK int cv_scratch_watch_discard(struct cv_scratch_watch *watch, int slot,
                                           const char *name, struct cv_error *error);

/* Whether something that was discarded may still be there. */
bool cv_scratch_watch_is_removing(struct cv_scratch_watch *watch);

/* Readable when one of these answers may have changed since the last cv_scratch_watch_drain. */
int cv_scratch_watch_fd(const struct cv_scratch_watch *watch);
void cv_scratch_watch_drain(struct cv_scratch_watch *watch);
