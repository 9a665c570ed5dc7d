/* Has the content of the reference moved as a whole, and on which way did it come there? */
#pragma once

#include "common/base/base.h"

#include "workers/sample/sampler.h"
#include "workers/sample/scroll.h"

struct movement {
    int width, height;  /* of the pictures */
    int dx, dy;         /* of the last place noted, against the reference */
    int step_x, step_y; /* the last movement from frame to frame */
    struct scroll_profile reference[2], current[2]; /* by enum scroll_axis */
    bool profiled[2];                               /* of the reference */
    int failures, wait;                             /* frames until the next attempt */
    struct sampler_motion *way;                     /* places since the reference */
    size_t way_count;
};

/* For pictures of that size; frees what was there before. `movement` is zero or initialised. */
CV_MUST_CHECK int movement_init(struct movement *movement, int width, int height,
                                struct cv_error *error);
void movement_deinit(struct movement *movement);

/* Begins with a new reference, from which nothing has moved yet. */
void movement_begin(struct movement *movement);

/* Records that the content stands again where it stood in the reference. */
CV_MUST_CHECK int movement_returned(struct movement *movement, int64_t time_us,
                                    struct cv_error *error);

/* For a picture that looks like the reference again: whether the content has not jumped back but
 * moved on by a whole period of what repeats itself. The place that it moved to is returned. */
bool movement_repeats(const struct movement *movement, int threshold, const struct plane *reference,
                      const struct plane *current, int *ret_dx, int *ret_dy);

/* Where the content of the reference has moved to, after a gate_compare of the two that found
 * `difference`. False when no movement explains it. */
bool movement_find(struct movement *movement, const struct gate *gate,
                   const struct gate_result *difference, const struct plane *reference,
                   const struct plane *current, int *ret_dx, int *ret_dy,
                   struct scroll_check *ret_check);

/* Records the place found; a way of more than 4,096 places is not noted any further. */
CV_MUST_CHECK int movement_record(struct movement *movement, int64_t time_us, int dx, int dy,
                                  struct cv_error *error);

/* Whether the movement turns round at a place after it has gone further than a line's height.
 * What was in view at the turn may not come back. */
bool movement_turned(const struct movement *movement, int dx, int dy);

/* Whether more has changed than what moved and what came into view with it. */
bool movement_leaves_more(const struct scroll_check *check);
