/* Reads JPEG. Apart from the rest, so that a program that only reads pictures is linked without FFmpeg. */
#pragma once

#include "common/base/base.h"

/* A JPEG as planes: red, green, blue and luma of BT.601, full range, `width` bytes a row. */
struct cv_jpeg_picture {
    int width, height;
    int reduction;     /* 1, 2, 4 or 8: pixels here × reduction = pixels of the JPEG */
    uint8_t *plane[4]; /* one allocation; free(plane[0]) */
};

/* Decodes a JPEG of any origin. One with more than `area_max` pixels is reduced to a half, a
 * quarter or an eighth of its width and height. CV_ERROR_DECODE if it is not a JPEG or any part is
 * damaged; CV_ERROR_LIMIT_EXCEEDED if a side is longer than CV_MEDIA_SIDE_MAX. */
CV_MUST_CHECK int cv_jpeg_read(const void *data, size_t size, int area_max,
                               struct cv_jpeg_picture *ret_picture, struct cv_error *error);
