/* One moment of a video as a picture. */
#pragma once

#include "common/media/media.h"

#include "workers/clip_generate/request.h"

struct still_report {
    int64_t time_us;       /* of the picture */
    int64_t source_end_us; /* as in cut_report */
};

/* The picture that is on screen at `moment_us`, or the first one if that comes later, as a JPEG in
 * new memory; free() it. */
CV_MUST_CHECK int still_take(struct cv_decoder *decoder, int64_t moment_us,
                             const struct clip_request *request, void **ret_data, size_t *ret_size,
                             struct still_report *ret_report, struct cv_error *error);
