/* JPEG, written and read; the brightness of a picture. */
#pragma once

#include "common/media/info.h"

#include <libavutil/frame.h>

/* 8-bit luma of a frame, full range (0 black … 255 white), `stride` bytes a row, in the caller's
 * buffer of at least stride × height bytes. Works for every pixel format. */
CV_MUST_CHECK int cv_picture_luma(const AVFrame *picture, uint8_t *luma, int stride,
                                  struct cv_error *error);

/* A JPEG of the picture in fresh memory; free() it. Chroma keeps the resolution that it has: 4:2:0
 * stays 4:2:0, all else becomes 4:4:4, so that coloured text stays as sharp as it was.
 * `quality` 1 (worst) … 100. `max_side` scales down to fit, 0 = as it is. */
CV_MUST_CHECK int cv_picture_jpeg(const AVFrame *picture, int quality, int max_side,
                                  void **ret_data, size_t *ret_size, struct cv_error *error);

/* A JPEG as planes: red, green, blue and luma of BT.601, full range, `width` bytes a row. */
struct cv_jpeg_picture {
    int width, height;
    int reduction;     /* 1, 2, 4 or 8: pixels here × reduction = pixels of the JPEG */
    uint8_t *plane[4]; /* one allocation; free(plane[0]) */
};

/* Reads a JPEG of any origin; one with more than `area_max` pixels at a half, a quarter or an
 * eighth of its sides. CV_ERROR_DECODE when it is not a JPEG, or is damaged in any place;
 * CV_ERROR_LIMIT_EXCEEDED when a side is longer than CV_MEDIA_SIDE_MAX. */
CV_MUST_CHECK int cv_jpeg_read(const void *data, size_t size, int area_max,
                               struct cv_jpeg_picture *ret_picture, struct cv_error *error);
