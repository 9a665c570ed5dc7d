/* The way of a line over the screen, from source frame to source frame. */
#pragma once

#include "workers/ocr/timing.h"

#include <jansson.h>

/* {t, x, y, dt, dx, dy, …} of the line's left top corner between `start` and `end`, in ms and in pixels
 * times `scale`, each point but the first against the one before; *ret_way is NULL where the line did not
 * move. `panes` are settled. */
CV_MUST_CHECK int ocr_way_of(const struct ocr_timing *timings, size_t count,
                             const struct ocr_stretch *stretch, const struct ocr_panes *panes,
                             int64_t start, int64_t end, int scale, json_t **ret_way,
                             struct cv_error *error);
