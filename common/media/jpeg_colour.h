/* Samples of a picture as JFIF wants them: full range, colour matrix of BT.601. Private to
 * common/media. */
#pragma once

#include "common/media/media.h"

/* From another matrix and range, in fixed point. Luma takes a share of both chroma samples; chroma
 * takes none of luma, so that halved chroma can stay halved. */
struct cv_jpeg_colour {
    int luma_scale, luma_offset;
    int y_cb, y_cr, cb_cb, cb_cr, cr_cb, cr_cr;
};

struct cv_jpeg_colour cv_jpeg_colour_of(const AVFrame *picture);

/* A row of luma. With `halved`, each chroma sample belongs to two of luma. */
void cv_jpeg_luma_row(const struct cv_jpeg_colour *colour, const uint8_t *y, const uint8_t *cb,
                      const uint8_t *cr, bool halved, uint8_t *out, int width);

/* A row of both chroma planes, `width` samples each. */
void cv_jpeg_chroma_row(const struct cv_jpeg_colour *colour, const uint8_t *cb, const uint8_t *cr,
                        uint8_t *out_cb, uint8_t *out_cr, int width);
