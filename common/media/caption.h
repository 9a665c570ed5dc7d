/* Writes texts on pictures. */
#pragma once

#include "common/base/base.h"

#include <libavutil/frame.h>

struct cv_caption {
    const char *const *lines; /* UTF-8; the first one is a heading. Long ones are broken */
    size_t count;
    bool below;       /* below the picture, which grows; else in the middle of it */
    const char *path; /* of a file that may be written meanwhile */
};

/* Returns a copy of the picture (RGB, full range) with white texts, in the fonts that fontconfig finds for their scripts;
 * av_frame_free it. */
CV_MUST_CHECK int cv_picture_caption(const AVFrame *picture, const struct cv_caption *caption,
                                     AVFrame **ret_picture, struct cv_error *error);
