/* Pictures in another size, pixel format or range of brightness. */
#pragma once

#include "common/media/info.h"

#include <libavutil/frame.h>

/* ---- size and format ------------------------------------------------------------------------- */

struct SwsContext;

/* A picture of another size or pixel format in a fresh frame (av_frame_free). `full_range` is that
 * of the result; the source's own range and colour matrix are honoured. `cache` may hold a context
 * of an earlier call, or point to NULL; the caller frees it with sws_freeContext. */
CV_MUST_CHECK int cv_scale_picture(const AVFrame *picture, int width, int height,
                                   enum AVPixelFormat format, bool full_range,
                                   struct SwsContext **cache, AVFrame **ret_frame,
                                   struct cv_error *error);

/* Whether the samples of a picture use the whole range of their type. */
bool cv_is_full_range(const AVFrame *picture);

/* The deprecated full-range names (yuvj420p, …) as what they are. */
enum AVPixelFormat cv_plain_format(enum AVPixelFormat format);

/* Whether two pictures are the same to the last bit: a screen that stands still. Comparing costs a
 * tenth of scaling, and ends at the first difference. */
bool cv_picture_equals(const AVFrame *one, const AVFrame *other);

/* ---- high dynamic range ---------------------------------------------------------------------- */

/* Whether a picture has to be mapped: coded with PQ (SMPTE ST 2084), which ordinary screens show dull
 * and dark, or with HLG (ARIB STD-B67), which they show pale. */
bool cv_tone_is_high(const AVFrame *picture);

/* The picture as 8-bit limited-range 4:2:0 with an ordinary transfer curve. Highlights are rolled
 * off, everything up to half of reference white keeps its brightness. av_frame_free the result. */
CV_MUST_CHECK int cv_tone_map(const AVFrame *picture, AVFrame **ret_frame, struct cv_error *error);

/* ---- the size and format of a rendition ------------------------------------------------------ */

struct cv_fit;

/* The size of a rendition: even, no side longer than `max_side` (0: no bound), never larger than
 * the source but for what evenness takes (1×1 becomes 2×2). */
void cv_fit_size(int width, int height, int max_side, int *ret_width, int *ret_height);

struct cv_fit_params {
    int source_width, source_height; /* of the pictures that come in, but for changes on the way */
    AVRational aspect;               /* of their pixels; 0/1: pixels stay as they are */
    int width, height;               /* even */
};

CV_MUST_CHECK int cv_fit_new(const struct cv_fit_params *params, struct cv_fit **ret_fit,
                             struct cv_error *error);
void cv_fit_free(struct cv_fit *fit);
CV_DEFINE_CLEANUP(struct cv_fit *, cv_fit_free)

/* The picture as limited-range 4:2:0 of 8 bits; a reference to the same memory where nothing has to
 * be done (an odd last row or column is left out). A picture of another shape, after a change in
 * mid-stream, is scaled to fit and centred on black. High dynamic range becomes ordinary, after the
 * picture has become small. av_frame_free the result. */
CV_MUST_CHECK int cv_fit_picture(struct cv_fit *fit, const AVFrame *picture, AVFrame **ret_frame,
                                 struct cv_error *error);
