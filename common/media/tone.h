/* High dynamic range down to what ordinary screens and JPEG show. Private to common/media. */
#pragma once

#include "common/media/media.h"

/* Whether a picture has to be mapped: coded with PQ (SMPTE ST 2084), which ordinary screens show dull
 * and dark, or with HLG (ARIB STD-B67), which they show pale. */
bool cv_tone_is_high(const AVFrame *picture);

/* The picture as 8-bit limited-range 4:2:0 with an ordinary transfer curve. Highlights are rolled
 * off, everything up to half of reference white keeps its brightness. av_frame_free the result. */
CV_MUST_CHECK int cv_tone_map(const AVFrame *picture, AVFrame **ret_frame, struct cv_error *error);
