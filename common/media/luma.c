#include "common/media/cleanup.h"
#include "common/media/scale.h"

#include <libavutil/pixdesc.h>
#include <string.h>

/* Limited-range video puts black at 16 and white at 235 (ITU-R BT.601, BT.709). With 7 fractional
 * bits the stretch by 255/219 fits 16-bit arithmetic, which compilers turn into SIMD; it is right
 * to within one step. */
enum { BLACK = 16, STRETCH = 149, STRETCH_BITS = 7, STRETCH_HALF = 64 };

static uint8_t stretch(uint8_t sample)
{
    uint16_t above = sample < BLACK ? 0 : (uint16_t)(sample - BLACK);
    uint16_t wide = (uint16_t)((above * STRETCH + STRETCH_HALF) >> STRETCH_BITS);
    return wide > 255 ? 255 : (uint8_t)wide;
}

static void row_from_8_bits(const uint8_t *restrict source, uint8_t *restrict luma, int width,
                            bool full_range)
{
    if (full_range) {
        (void)memcpy(luma, source, (size_t)width);
        return;
    }
    for (int x = 0; x < width; x++) {
        luma[x] = stretch(source[x]);
    }
}

static void row_from_16_bits(const uint16_t *restrict source, uint8_t *restrict luma, int width,
                             int shift, bool full_range)
{
    for (int x = 0; x < width; x++) {
        luma[x] = (uint8_t)(source[x] >> shift);
    }
    if (!full_range) {
        for (int x = 0; x < width; x++) {
            luma[x] = stretch(luma[x]);
        }
    }
}

/* Formats whose first plane is nothing but luma, in bytes or little-endian words. */
static bool has_plain_luma(const AVPixFmtDescriptor *description)
{
    const AVComponentDescriptor *luma = &description->comp[0];
    uint64_t excluded = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM |
                        AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_BE | AV_PIX_FMT_FLAG_BAYER |
                        AV_PIX_FMT_FLAG_FLOAT | AV_PIX_FMT_FLAG_ALPHA;
    if ((description->flags & excluded) != 0 || luma->plane != 0 || luma->offset != 0) {
        return false;
    }
    return (luma->depth == 8 && luma->step == 1) ||
           (luma->depth > 8 && luma->depth <= 16 && luma->step == 2);
}

int cv_picture_luma(const AVFrame *picture, uint8_t *luma, int stride, struct cv_error *error)
{
    const AVPixFmtDescriptor *description = av_pix_fmt_desc_get(picture->format);
    if (!description || picture->width <= 0 || picture->height <= 0 || stride < picture->width) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no picture to take the luma of");
    }
    const AVFrame *from = picture;
    bool full_range = cv_is_full_range(picture);
    cv_auto(cv_av_frame_free) AVFrame *grey = NULL;
    if (!has_plain_luma(description)) {
        cv_auto(sws_freeContext) struct SwsContext *cache = NULL;
        int result = cv_scale_picture(picture, picture->width, picture->height, AV_PIX_FMT_GRAY8,
                                      true, &cache, &grey, error);
        if (result != 0) {
            return result;
        }
        from = grey;
        full_range = true;
        description = av_pix_fmt_desc_get(AV_PIX_FMT_GRAY8);
    } else if (description->nb_components == 1 && picture->color_range != AVCOL_RANGE_MPEG) {
        full_range = true; /* grey pictures are full range unless they say otherwise */
    }

    const AVComponentDescriptor *component = &description->comp[0];
    int shift = component->shift + component->depth - 8;
    for (int y = 0; y < from->height; y++) {
        const uint8_t *row = from->data[0] + (ptrdiff_t)y * from->linesize[0];
        uint8_t *target = luma + (ptrdiff_t)y * stride;
        if (component->step == 1) {
            row_from_8_bits(row, target, from->width, full_range);
        } else {
            row_from_16_bits((const uint16_t *)(const void *)row, target, from->width, shift,
                             full_range);
        }
    }
    return 0;
}
