/* How many frames may be kept: target_fps in the long run, a few more at once after a calm. */
#pragma once

#include "common/base/base.h"

/* Times measured in frames carry rounding of a container's ticks. */
enum { PACE_TICK_US = 1500 };

struct pace {
    int64_t interval_us; /* of target_fps */
    int64_t grid_us;     /* the last time a frame was due */
    double tokens;       /* frames that may be kept now */
    int64_t tokens_at;
};

void pace_init(struct pace *pace, double target_fps);

/* Time passes. */
void pace_refill(struct pace *pace, int64_t now_us);

bool pace_allows(const struct pace *pace);

/* When the next frame of a change that goes on is due: counted from the grid, or from where it
 * began after a calm. */
int64_t pace_due(const struct pace *pace, int64_t change_began_us, bool calm_before);

/* A frame has been kept whose state began then. */
void pace_spend(struct pace *pace, int64_t start_us);
