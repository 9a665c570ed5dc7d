/* The sizes and rates that renditions come in. Private to common/media. */
#pragma once

#include "common/media/media.h"

struct cv_rung_size {
    int width, height;
    int max_rate; /* bits per second that no stretch of a second or two goes beyond */
};

/* The size that players show the source at: pixels made square, as containers and players reckon it
 * (the coded rows are kept, the columns follow the aspect). */
void cv_ladder_shown_size(const struct cv_media_info *source, int *ret_width, int *ret_height);

/* The renditions of a source that is shown at width × height, largest first; their number, at least
 * 1. `short_sides` names presets (0 of them: the default ladder), as cv_ladder_is_rung knows them.
 * Never larger than the source but for evenness, no two nearly alike. */
size_t cv_ladder_plan(int width, int height, const int *short_sides, size_t count,
                      struct cv_rung_size rungs[CV_LADDER_RUNGS_MAX]);
