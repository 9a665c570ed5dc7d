/* A thread that measures the scratch directories of running jobs, which a stage could fill, and
 * removes those of finished jobs, which may have a million files, so that the supervisor's loop
 * does not wait. Called by the loop's thread. */
#pragma once

#include "common/worker/scratch.h"

#include <sys/types.h>

enum { CV_SCRATCH_TEXT_SIZE = 160 };

struct cv_scratch_watch;

/* Starts the thread for directories in `scratch`, which must outlive it. The thread also removes
 * the scratch directories of dead processes. */
CV_MUST_CHECK int cv_scratch_watch_start(const struct cv_scratch *scratch, int slots,
                                         struct cv_scratch_watch **ret_watch,
                                         struct cv_error *error);

/* Ends the thread; a removal under way stops and the rest stays. NULL is allowed. */
void cv_scratch_watch_stop(struct cv_scratch_watch *watch);

/* Measures the directory `name` of the slot's stage, process `pid`, until it is discarded. */
void cv_scratch_watch_add(struct cv_scratch_watch *watch, int slot, const char *name, pid_t pid,
                          const struct cv_scratch_usage *most);

/* Whether the directory was found to contain more than allowed; `text` says what. */
bool cv_scratch_watch_is_over(struct cv_scratch_watch *watch, int slot,
                              char text[CV_SCRATCH_TEXT_SIZE]);

/* Takes the directory from the slot and removes it soon. */
CV_MUST_CHECK int cv_scratch_watch_discard(struct cv_scratch_watch *watch, int slot,
                                           const char *name, struct cv_error *error);

/* Whether a discarded directory may still exist. */
bool cv_scratch_watch_is_removing(struct cv_scratch_watch *watch);

/* A descriptor, readable when one of these answers may have changed since the last
 * cv_scratch_watch_drain. */
int cv_scratch_watch_fd(const struct cv_scratch_watch *watch);
void cv_scratch_watch_drain(struct cv_scratch_watch *watch);
