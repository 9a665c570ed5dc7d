/* Writes WebP, which all current browsers read. */
#pragma once

#include "common/media/info.h"

#include <libavutil/frame.h>

/* Encodes the picture as lossy WebP in new memory; free() it. The picture's own colour matrix and
 * range are taken into account. `quality` 1 (worst) … 100. A picture with a side longer than
 * `max_side` is scaled down, 0: never; width and height become even. */
CV_MUST_CHECK int cv_picture_webp(const AVFrame *picture, int quality, int max_side,
                                  void **ret_data, size_t *ret_size, struct cv_error *error);
