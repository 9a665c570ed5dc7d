/* Brings pictures of any size and format to the one size and format of a rendition. Private to
 * common/media. */
#pragma once

#include "common/media/media.h"

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
