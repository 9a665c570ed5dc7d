/* Scaling and conversion through libswscale. Private to common/media. */
#pragma once

#include "common/media/media.h"

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
