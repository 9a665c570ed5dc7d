/* Converts pictures to another size, pixel format or brightness range. */
#pragma once

#include "common/media/info.h"

#include <libavutil/frame.h>

/* ---- size and format ------------------------------------------------------------------------- */

struct SwsContext;

/* Allocates a picture, whose samples are not set; av_frame_free it. */
CV_MUST_CHECK int cv_picture_new(int width, int height, enum AVPixelFormat format,
                                 AVFrame **ret_frame, struct cv_error *error);

/* Scales and converts a picture into a new frame (av_frame_free it). `full_range` is the brightness
 * range of the result; the source's own range and colour matrix are taken into account. `cache` may
 * hold a context of an earlier call, or point to NULL; the caller frees it with sws_freeContext. */
CV_MUST_CHECK int cv_scale_picture(const AVFrame *picture, int width, int height,
                                   enum AVPixelFormat format, bool full_range,
                                   struct SwsContext **cache, AVFrame **ret_frame,
                                   struct cv_error *error);

/* Whether the picture is full range: black and white are the smallest and largest sample values. */
bool cv_is_full_range(const AVFrame *picture);

/* Replaces the deprecated full-range formats (yuvj420p, …) by their plain equivalents (yuv420p, …). */
enum AVPixelFormat cv_plain_format(enum AVPixelFormat format);

/* Whether two pictures are identical in every sample, as on an unchanged screen. A comparison costs
 * a tenth of scaling, and stops at the first difference. */
bool cv_picture_equals(const AVFrame *one, const AVFrame *other);

/* ---- high dynamic range ---------------------------------------------------------------------- */

/* Whether a picture has high dynamic range and must be tone-mapped: PQ (SMPTE ST 2084), which
 * ordinary screens show dull and dark, or HLG (ARIB STD-B67), which they show pale. */
bool cv_tone_is_high(const AVFrame *picture);

/* Tone-maps a picture to 8-bit limited-range 4:2:0 with an ordinary transfer curve. Brightness up
 * to half of reference white is kept, highlights are compressed. av_frame_free the result. */
CV_MUST_CHECK int cv_tone_map(const AVFrame *picture, AVFrame **ret_frame, struct cv_error *error);

/* ---- the size and format of a rendition ------------------------------------------------------ */

struct cv_fit;

/* Calculates the size of a rendition: even, no side longer than `max_side` (0: no limit), and not
 * larger than the source except for rounding up to even (1×1 becomes 2×2). */
void cv_fit_size(int width, int height, int max_side, int *ret_width, int *ret_height);

struct cv_fit_params {
    int source_width, source_height; /* of the incoming pictures; later ones may differ */
    AVRational aspect;               /* of their pixels; 0/1: pixels are not made square */
    int width, height;               /* even */
};

CV_MUST_CHECK int cv_fit_new(const struct cv_fit_params *params, struct cv_fit **ret_fit,
                             struct cv_error *error);
void cv_fit_free(struct cv_fit *fit);
CV_DEFINE_CLEANUP(struct cv_fit *, cv_fit_free)

/* Converts the picture to limited-range 8-bit 4:2:0 of the given size. If nothing must be done, the
 * result refers to the same memory (an odd last row or column is dropped). A picture of another
 * shape, after a change in mid-stream, is scaled to fit and centred on black. High dynamic range is
 * tone-mapped, after scaling. av_frame_free the result. */
CV_MUST_CHECK int cv_fit_picture(struct cv_fit *fit, const AVFrame *picture, AVFrame **ret_frame,
                                 struct cv_error *error);
