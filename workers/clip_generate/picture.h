/* The part of a picture that a clip shows, and its size. */
#pragma once

#include "common/media/media.h"

#include "workers/clip_generate/request.h"

/* The size of the shown part. CV_ERROR_INVALID_PAYLOAD when the box reaches over the picture's
 * edge. */
CV_MUST_CHECK int picture_size(const struct clip_box *box, const struct cv_media_info *info,
                               int *ret_width, int *ret_height, struct cv_error *error);

/* A reference to that part of a picture, or to all of it. If the picture's size has changed in
 * mid-stream, the same part in proportion. av_frame_free the result. */
CV_MUST_CHECK int picture_part(const struct clip_box *box, const struct cv_media_info *info,
                               const AVFrame *picture, AVFrame **ret_part, struct cv_error *error);

/* The longest side that keeps a picture within `max_height` (0: no bound), and never above
 * `max_side`. */
int picture_longest_side(int width, int height, int max_height, int max_side);
