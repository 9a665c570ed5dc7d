#include "common/media/frame_clock.h"

int64_t cv_frame_clock_stamp(struct cv_frame_clock *clock, int64_t source_us)
{
    int64_t time_us = source_us;
    if (source_us == INT64_MIN) {
        time_us = clock->started ? clock->last_us + clock->interval_us : 0;
    }
    int64_t earliest_us = clock->started ? clock->last_us + 1 : 0;
    clock->last_us = time_us < earliest_us ? earliest_us : time_us;
    clock->started = true;
    return clock->last_us;
}

void cv_frame_clock_reset(struct cv_frame_clock *clock)
{
    clock->started = false;
    clock->last_us = 0;
}
