/* The path of a line over the screen, from source frame to source frame. */
#pragma once

#include "workers/ocr/tracks/timing.h"

#include <jansson.h>

/* {t, x, y, dt, dx, dy, …} of the line's left top corner in `span`, in ms and in pixels of the stored picture, each
 * point but the first against the one before; *ret_path is NULL where the line did not move. */
CV_MUST_CHECK int ocr_path_of(const struct ocr_course *course, const struct ocr_stretch *stretch,
                              struct ocr_span span, json_t **ret_path, struct cv_error *error);
