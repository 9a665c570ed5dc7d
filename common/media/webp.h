/* WebP, written; every browser of today reads it. */
#pragma once

#include "common/media/info.h"

#include <libavutil/frame.h>

/* A lossy WebP of the picture in fresh memory; free() it. Its colours are those of the picture's own matrix and range.
 * `quality` 1 (worst) … 100. `max_side` scales down to fit, 0 = as it is; sides come out even. */
CV_MUST_CHECK int cv_picture_webp(const AVFrame *picture, int quality, int max_side,
                                  void **ret_data, size_t *ret_size, struct cv_error *error);
