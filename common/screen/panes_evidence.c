#include "common/screen/panes_evidence.h"

#include <simde/x86/sse2.h>
#include <string.h>

enum {
    PIXEL_CHANGED = 40, /* levels: ink became paper, or other content */
    PIXEL_SAME = 24,    /* levels; codec noise stays below */
};

/* The rows of pixels that one row of cells is judged by; those at the left end of a cell's pixels. */
struct cell_rows {
    const uint8_t *before, *after;
    const uint8_t *before_below, *after_below;   /* a row further down */
    const uint8_t *source_before, *source_after; /* where its content should have come from */
};

static inline int apart(uint8_t a, uint8_t b)
{
    return a > b ? a - b : b - a;
}

/* What the pixels of one cell prove. */
struct proof {
    uint8_t came, left, stayed;
};

/* Written for a compiler that takes eight pixels at once. */
static inline struct proof judge(const struct cell_rows *rows)
{
    int came = 0, left = 0, stayed = 0;

    for (int i = 0; i < OCR_CELL; i++) {
        int here = apart(rows->before[i], rows->after[i]);
        int there = apart(rows->source_before[i], rows->after[i]);
        int gone = apart(rows->source_before[i], rows->source_after[i]) >= PIXEL_CHANGED;
        /* an edge, whose other side stays, too */
        int beside = (apart(rows->before[i], rows->before[i + 1]) >= PIXEL_CHANGED) &
                     (apart(rows->before[i + 1], rows->after[i + 1]) < PIXEL_SAME);
        int under = (apart(rows->before[i], rows->before_below[i]) >= PIXEL_CHANGED) &
                    (apart(rows->before_below[i], rows->after_below[i]) < PIXEL_SAME);
        int still = (here < PIXEL_SAME) & (there >= PIXEL_CHANGED);
        came += (here >= PIXEL_CHANGED) & (there < PIXEL_SAME);
        left += gone & (there < PIXEL_SAME);
        /* paper that stays proves nothing unless something should have come there */
        stayed += still & (gone | beside | under);
    }
    return (struct proof){(uint8_t)came, (uint8_t)left, (uint8_t)stayed};
}

/* Nothing in the cell is far from what was there, nor from what should have come: most of a page is
 * paper. */
static inline bool proves_nothing(const struct cell_rows *rows)
{
    __m128i now = _mm_loadl_epi64((const __m128i *)rows->after);
    __m128i then = _mm_loadl_epi64((const __m128i *)rows->before);
    __m128i came = _mm_loadl_epi64((const __m128i *)rows->source_before);
    __m128i both = _mm_unpacklo_epi64(then, came);
    __m128i sums = _mm_sad_epu8(_mm_unpacklo_epi64(now, now), both);
    return _mm_cvtsi128_si32(sums) < PIXEL_CHANGED && _mm_extract_epi16(sums, 4) < PIXEL_CHANGED;
}

/* Content that left its place and is found where it went to was seen to move there, too. */
static void mark_source(uint8_t *moved_row, int across, int x, uint8_t pixels)
{
    int cell = x / OCR_CELL, over = x % OCR_CELL;
    int next = cell + 1 < across ? pixels * over / OCR_CELL : 0;

    moved_row[cell] = (uint8_t)ocr_min(moved_row[cell] + pixels - next, OCR_CELL);
    if (next > 0) {
        moved_row[cell + 1] = (uint8_t)ocr_min(moved_row[cell + 1] + next, OCR_CELL);
    }
}

void ocr_evidence_of(const struct ocr_frame *before, const struct ocr_frame *after, int dx, int dy,
                     const struct ocr_cells *cells)
{
    int width = before->width, height = before->height, across = ocr_cells_across(width);
    int first = dx > 0 ? (dx + OCR_CELL - 1) / OCR_CELL : 0;
    int end = ocr_min(across, (width - 1 + ocr_min(dx, 0)) / OCR_CELL);
    const uint8_t *old = before->plane[OCR_LUMA], *new = after->plane[OCR_LUMA];

    memset(cells->moved, 0, 2 * ocr_cells_count(width, height));
    for (int y = ocr_max(dy, 0); y < height + ocr_min(dy, 0); y++) {
        size_t here = (size_t)y * (size_t)width, source = (size_t)(y - dy) * (size_t)width;
        size_t row = (size_t)y * (size_t)across, source_row = (size_t)(y - dy) * (size_t)across;
        size_t below = y + 1 < height ? here + (size_t)width : here;
        for (int cell = first; cell < end; cell++) {
            int x = cell * OCR_CELL, from = x - dx;
            struct cell_rows rows = {old + here + x,  new + here + x,      old + below + x,
                                     new + below + x, old + source + from, new + source + from};
            if (proves_nothing(&rows)) {
                continue;
            }
            struct proof proof = judge(&rows);
            uint8_t *moved = &cells->moved[row + (size_t)cell];
            *moved = (uint8_t)ocr_min(*moved + proof.came, OCR_CELL);
            cells->stayed[row + (size_t)cell] = proof.stayed;
            if (proof.left > 0) {
                mark_source(cells->moved + source_row, across, from, proof.left);
            }
        }
    }
}
