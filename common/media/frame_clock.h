/* Presentation times that only grow. Private to common/media; pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cv_frame_clock {
    int64_t interval_us; /* nominal time between frames, for frames without a timestamp */
    int64_t last_us;
    bool started;
};

/* The time of the next frame: the source's own (or INT64_MIN when it has none) wherever that is
 * possible, repaired by as little as possible where it is not: never before 0, always later than
 * the frame before. */
int64_t cv_frame_clock_stamp(struct cv_frame_clock *clock, int64_t source_us);

/* Forgets the last frame, after a seek. */
void cv_frame_clock_reset(struct cv_frame_clock *clock);
