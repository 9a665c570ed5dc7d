/* When each kept frame stood on screen and how its content moved, and from that, when a line was
 * wholly visible. */
#pragma once

#include "common/screen/screen.h"

enum {
    OCR_SHIFT_MAX = 16384,   /* pixels between two kept frames */
    OCR_LAST_FRAME_MS = 100, /* how long a last frame of unknown end stands: 1/10 s */
    OCR_VISITS_MAX = 16,     /* of one stretch; what follows counts as part of the last one */
};

struct ocr_motion {
    int64_t t_ms;
    int dx, dy; /* since the previous kept frame */
};

struct ocr_timing {
    int64_t t_start, t_end; /* ms; t_end exclusive */
    bool shift_known; /* dx, dy hold: the content moved by them since the previous kept frame */
    int dx, dy;
    struct ocr_motion *motion; /* of the source frames since the previous kept frame; owned */
    size_t motion_count;
};

/* All kept frames of a video: when each stood on screen, and what moved in them. Borrowed. */
struct ocr_course {
    const struct ocr_timing *timings;
    size_t count;
    const struct cv_panes *panes; /* settled */
    struct cv_box screen;
    int reduction; /* frame pixels × reduction = pixels of the stored picture */
};

/* Milliseconds; end exclusive. */
struct ocr_span {
    int64_t start, end;
};

/* Where a line was first and last seen whole. */
struct ocr_sighting {
    int frame; /* index of the kept frame */
    int x, y;
};

struct ocr_stretch {
    struct ocr_sighting first, last;
    int width, height; /* of the ink */
    struct cv_places places;
    bool
        pieced; /* what was seen at first may have been a part of it: something lay over the rest */
};

/* A time in which all of a line was visible, and where it was first and last seen in it. */
struct ocr_visit {
    struct ocr_span span;
    struct ocr_sighting first, last;
};

struct ocr_visits {
    struct ocr_visit items[OCR_VISITS_MAX];
    int count; /* 1 at least */
};

/* The times in which the line was wholly inside of the pane that it moved in (inside of the frame where
 * it did not move) and nothing lay over it. There are several where the content took it out and back. */
void ocr_timing_of(const struct ocr_course *course, const struct ocr_stretch *stretch,
                   struct ocr_visits *ret_visits);
