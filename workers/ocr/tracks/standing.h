/* Light text that stands in front of a moving picture: around each kept frame some others are held, and what is light for
 * a moment only is darkened to the level that was there before or comes next (an opening along time). */
#pragma once

#include "common/screen/screen.h"

#include "workers/ocr/tracks/timing.h"

enum { OCR_STANDING_REACH = 8 }; /* frames before and behind one that are looked at */

struct ocr_standing_frame {
    struct cv_frame frame; /* no planes after it was taken */
    uint8_t *luma;         /* as it was decoded; NULL: not needed */
    double moved; /* share of the picture in which something moved since the frame before */
};

/* The frames around the next one to take. */
struct ocr_standing_frames {
    const struct ocr_timing *timings; /* of all frames; borrowed */
    size_t timing_count;
    struct ocr_standing_frame held[2 * OCR_STANDING_REACH + 1]; /* a ring by index */
    size_t received, taken;
};

void ocr_standing_deinit(struct ocr_standing_frames *frames);

/* Takes `frame` over, the next in time. There is room: take frames until none is ready first. */
CV_MUST_CHECK int ocr_standing_add(struct ocr_standing_frames *frames, struct cv_frame *frame,
                                   struct cv_error *error);

/* Whether the next frame to take has all frames around it that it needs, or all that will come. */
bool ocr_standing_ready(const struct ocr_standing_frames *frames);

/* The next frame, which is ready, in order of time; `ret_is_film`: it was changed. Free it with cv_frame_deinit. */
CV_MUST_CHECK int ocr_standing_take(struct ocr_standing_frames *frames, struct cv_frame *ret_frame,
                                    bool *ret_is_film, struct cv_error *error);
