#include "workers/ocr/viewport.h"

enum {
    COLUMN_STEP = 3,    /* columns looked at */
    PIXEL_CHANGED = 40, /* levels */
    CHANGED_MIN = 4,    /* changed pixels that make a row a changed one */
    NEIGHBOURS = 4,     /* rows beside a moved one of which half must have moved too */
};

static int changed_pixels(const uint8_t *a, const uint8_t *b, int from, int to, int shift)
{
    int changed = 0;

    for (int x = from; x < to; x += COLUMN_STEP) {
        changed += abs(a[x] - b[x + shift]) >= PIXEL_CHANGED;
    }
    return changed;
}

/* Whether what row `y` of `a` shows has moved to row y + dy of `b`. */
static bool row_moved(const struct ocr_frame *a, const struct ocr_frame *b, int y, int dx, int dy)
{
    size_t width = (size_t)a->width;
    const uint8_t *here = a->plane[OCR_LUMA] + (size_t)y * width;
    const uint8_t *same = b->plane[OCR_LUMA] + (size_t)y * width;
    int from = dx < 0 ? -dx : 0, to = dx > 0 ? a->width - dx : a->width;

    if (y + dy < 0 || y + dy >= b->height || to - from < 16) {
        return false;
    }
    int changed = changed_pixels(here, same, 0, a->width, 0);
    if (changed < CHANGED_MIN) {
        return false;
    }
    const uint8_t *there = b->plane[OCR_LUMA] + (size_t)(y + dy) * width;
    return changed_pixels(here, there, from, to, dx) * 4 <= changed;
}

/* Rows that moved in company: a lone one is a coincidence. */
static bool has_company(const bool *moved, int y, int height)
{
    int near = 0;

    for (int k = ocr_max(y - NEIGHBOURS, 0); k <= ocr_min(y + NEIGHBOURS, height - 1); k++) {
        near += moved[k];
    }
    return moved[y] && near > NEIGHBOURS / 2;
}

static void grow(struct ocr_viewport *viewport, const bool *moved, int height)
{
    int top = 0, bottom = height;

    while (top < height && !has_company(moved, top, height)) {
        top++;
    }
    while (bottom > top && !has_company(moved, bottom - 1, height)) {
        bottom--;
    }
    if (top >= bottom) {
        return;
    }
    if (!ocr_viewport_known(viewport)) {
        *viewport = (struct ocr_viewport){top, bottom, 0, 0};
    }
    /* What cut lines at a nearer edge was something else. */
    viewport->top_cuts = top < viewport->top - 3 ? 0 : viewport->top_cuts;
    viewport->bottom_cuts = bottom > viewport->bottom + 3 ? 0 : viewport->bottom_cuts;
    viewport->top = ocr_min(viewport->top, top);
    viewport->bottom = ocr_max(viewport->bottom, bottom);
}

void ocr_viewport_grow(struct ocr_viewport *viewport, const struct ocr_frame *before,
                       const struct ocr_frame *after, int dx, int dy)
{
    int height = before->height;

    if (before->width != after->width || height != after->height || (!dx && !dy)) {
        return;
    }
    cv_auto_free bool *moved = calloc((size_t)height, sizeof(*moved));
    if (!moved) {
        return; /* a later pair of frames teaches the same */
    }
    for (int y = 0; y < height; y++) {
        moved[y] = row_moved(before, after, y, dx, dy) || row_moved(after, before, y, -dx, -dy);
    }
    grow(viewport, moved, height);
}
