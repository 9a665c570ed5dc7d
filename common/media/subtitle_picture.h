/* The picture of an event of a track of pictures, as what reads letters wants it. */
#pragma once

#include "common/base/base.h"

#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>

/* Puts the rects of an event, whose palettes have 256 colours, at their places on one white picture (GRAY8) with a margin.
 * Only letters are dark: outlines, shadows and boxes, which are the colour that meets what is transparent, become white.
 * CV_SUBTITLE_IS_EMPTY: nothing is to be seen. *pixels grows by the pixels of the rects. CV_ERROR_DECODE: the event is damaged. CV_ERROR_LIMIT_EXCEEDED: it is too large by now, or the picture is larger than a screen. */
enum { CV_SUBTITLE_IS_EMPTY = 1 };
CV_MUST_CHECK int cv_subtitle_compose(const AVSubtitle *event, int64_t *pixels,
                                      AVFrame **ret_picture, struct cv_error *error);
