/* Writes JPEG; converts a picture to brightness values. */
#pragma once

#include "common/media/info.h"

#include <libavutil/frame.h>

/* Writes the 8-bit luma of a frame, full range (0 black … 255 white), `stride` bytes per row, to
 * the caller's buffer of at least stride × height bytes. Accepts every pixel format. */
CV_MUST_CHECK int cv_picture_luma(const AVFrame *picture, uint8_t *luma, int stride,
                                  struct cv_error *error);

/* Encodes the picture as JPEG in new memory; free() it. 4:2:0 chroma stays 4:2:0, everything else
 * becomes 4:4:4, so that coloured text stays as sharp as it was. `quality` 1 (worst) … 100. A
 * picture with a side longer than `max_side` is scaled down; 0: never. */
CV_MUST_CHECK int cv_picture_jpeg(const AVFrame *picture, int quality, int max_side,
                                  void **ret_data, size_t *ret_size, struct cv_error *error);
