/* Which rows of the screen scroll: between a status bar and a tab bar that stand still. */
#pragma once

#include "workers/ocr/frame.h"

struct ocr_viewport {
    int top, bottom; /* rows seen moving so far; bottom exclusive; top >= bottom: none seen yet */
    int top_cuts, bottom_cuts; /* lines seen going under that edge or coming out from under it */
};

/* Widens `viewport` by the rows that moved by dx, dy between two frames of the same size. A row
 * counts when it differs from the one at the same place and agrees with the shifted one. */
void ocr_viewport_grow(struct ocr_viewport *viewport, const struct ocr_frame *before,
                       const struct ocr_frame *after, int dx, int dy);

/* An edge is only sure when it was seen to cut lines: the last line of a chat moves, too, and ends
 * where no edge is. */
enum { OCR_VIEWPORT_SURE = 2 };

static inline bool ocr_viewport_known(const struct ocr_viewport *viewport)
{
    return viewport->bottom > viewport->top;
}

/* Whether content ends at that edge within a few pixels. */
static inline bool ocr_viewport_near(int edge, int y)
{
    return y - edge <= 3 && edge - y <= 3;
}
