#include "workers/ocr/match.h"

#include <string.h>

enum {
    CELL_DIFFERENCE = 34, /* mean levels in one cell: a changed dot of a digit is above, codec noise
                             at ordinary quality is half of it */
    STRONG_DIFFERENCE =
        110,           /* levels of one pixel: ink became paper; noise spreads and stays below */
    STRONG_PIXELS = 2, /* such pixels in a cell that shows something else */
    CELL_DIFFERENCE_MAX = 90, /* mean levels that no noise reaches, strong pixels or not */
    MEAN_DIFFERENCE = 18,     /* mean levels over the line; small dense letters have 11 of noise */
    ROW_DIFFERENCE = 14,      /* mean levels over one row */
    SIDE = 2 * OCR_MATCH_REACH,
};

/* One grey picture in another, at an offset. */
struct pair {
    const uint8_t *a, *b;
    int a_stride, b_stride;
    int width, height;
};

static int row_difference(const struct pair *pair, int y, int from, int to)
{
    const uint8_t *a = pair->a + (size_t)y * (size_t)pair->a_stride;
    const uint8_t *b = pair->b + (size_t)y * (size_t)pair->b_stride;
    int sum = 0;

    for (int x = from; x < to; x++) {
        sum += a[x] > b[x] ? a[x] - b[x] : b[x] - a[x];
    }
    return sum;
}

static int64_t total_difference(const struct pair *pair, int step)
{
    int64_t sum = 0;

    for (int y = 0; y < pair->height; y += step) {
        sum += row_difference(pair, y, 0, pair->width);
    }
    return sum;
}

static int strong_pixels(const struct pair *pair, const struct ocr_box *cell)
{
    int strong = 0;

    for (int y = cell->y; y < ocr_bottom(cell); y++) {
        const uint8_t *a = pair->a + (size_t)y * (size_t)pair->a_stride;
        const uint8_t *b = pair->b + (size_t)y * (size_t)pair->b_stride;
        for (int x = cell->x; x < ocr_right(cell); x++) {
            strong += abs(a[x] - b[x]) > STRONG_DIFFERENCE;
        }
    }
    return strong;
}

static bool same_cell(const struct pair *pair, const struct ocr_box *cell)
{
    int sum = 0, area = cell->width * cell->height;

    for (int y = cell->y; y < ocr_bottom(cell); y++) {
        sum += row_difference(pair, y, cell->x, ocr_right(cell));
    }
    if (sum <= CELL_DIFFERENCE * area) {
        return true;
    }
    return sum <= CELL_DIFFERENCE_MAX * area && strong_pixels(pair, cell) < STRONG_PIXELS;
}

/* No cell of about a third of a letter differs: one changed digit is enough to tell two lines. */
static bool same_cells(const struct pair *pair, int tall)
{
    int cell = ocr_max(5, ocr_min(tall / 3, 12));

    for (int y = 0; y < pair->height; y += ocr_max(cell / 2, 1)) {
        int rows = ocr_min(cell, pair->height - y);
        for (int x = 0; x < pair->width; x += ocr_max(cell / 2, 1)) {
            struct ocr_box here = {x, y, ocr_min(cell, pair->width - x), rows};
            if (rows < cell / 2 || here.width < cell / 2) {
                continue;
            }
            if (!same_cell(pair, &here)) {
                return false;
            }
        }
    }
    return true;
}

static bool same_whole(const struct pair *pair, int tall)
{
    int64_t area = (int64_t)pair->width * pair->height;

    return total_difference(pair, 1) <= MEAN_DIFFERENCE * area && same_cells(pair, tall);
}

static bool has_ink(const struct pair *pair, int from, int to)
{
    int dark = 0;

    for (int y = from; y < to; y++) {
        for (int x = 0; x < pair->width; x++) {
            dark += pair->a[(size_t)y * (size_t)pair->a_stride + (size_t)x] < 100;
        }
    }
    return dark >= 6;
}

/* The rows that match, when they are a piece at one end: a line half under an edge. */
static void look_for_part(const struct pair *pair, int tall, struct ocr_match *match)
{
    int from_top = 0, from_bottom = pair->height;
    int limit = ROW_DIFFERENCE * pair->width;

    while (from_top < pair->height && row_difference(pair, from_top, 0, pair->width) <= limit) {
        from_top++;
    }
    while (from_bottom > 0 && row_difference(pair, from_bottom - 1, 0, pair->width) <= limit) {
        from_bottom--;
    }
    match->first = from_top >= pair->height - from_bottom ? 0 : from_bottom;
    match->last = match->first ? pair->height : from_top;
    int rows = match->last - match->first;
    struct pair piece = *pair;
    piece.a += (size_t)match->first * (size_t)pair->a_stride;
    piece.b += (size_t)match->first * (size_t)pair->b_stride;
    piece.height = rows;
    match->part = rows >= ocr_max(3, tall / 5) && rows < pair->height &&
                  has_ink(pair, match->first, match->last) && same_cells(&piece, tall);
}

int ocr_match(const struct ocr_crop *crop, const struct ocr_frame *frame, int x, int y,
              struct ocr_match *ret_match, struct cv_error *error)
{
    struct ocr_box around = {x - OCR_MATCH_REACH, y - OCR_MATCH_REACH, crop->width + SIDE,
                             crop->height + SIDE};
    struct ocr_match match = {0};
    struct ocr_box visible = ocr_box_clip(&around, frame->width, frame->height);

    if (visible.width < crop->width / 2 || visible.height < 3) {
        *ret_match = match;
        return 0;
    }
    cv_auto_free uint8_t *grey = malloc((size_t)around.width * (size_t)around.height);
    if (!grey) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to compare a line");
    }
    ocr_ink_apply(&crop->ink, frame, &around, OCR_MATCH_REACH, grey);
    struct pair pair = {crop->grey, grey, crop->width, around.width, crop->width, crop->height};
    const uint8_t *middle = grey + OCR_MATCH_REACH * around.width + OCR_MATCH_REACH, *best = middle;
    pair.b = middle;
    int64_t least = total_difference(&pair, 2);
    for (int dy = 0; dy <= SIDE; dy++) {
        for (int dx = 0; dx <= SIDE; dx++) {
            pair.b = grey + dy * around.width + dx;
            int64_t sum = pair.b == middle ? least : total_difference(&pair, 2);
            if (sum < least) {
                least = sum;
                best = pair.b;
                match.dx = dx - OCR_MATCH_REACH;
                match.dy = dy - OCR_MATCH_REACH;
            }
        }
    }
    pair.b = best;
    match.whole = same_whole(&pair, crop->tall);
    match.last = crop->height;
    if (!match.whole) {
        look_for_part(&pair, crop->tall, &match);
    }
    *ret_match = match;
    return 0;
}

bool ocr_match_crops(const struct ocr_crop *a, const struct ocr_crop *b)
{
    int width = ocr_min(a->width, b->width), height = ocr_min(a->height, b->height);

    if (abs(a->width - b->width) > OCR_MATCH_REACH ||
        abs(a->height - b->height) > OCR_MATCH_REACH || a->ink.kind != b->ink.kind ||
        a->ink.light != b->ink.light) {
        return false;
    }
    for (int ay = 0; ay <= a->height - height; ay++) {
        for (int ax = 0; ax <= a->width - width; ax++) {
            for (int by = 0; by <= b->height - height; by++) {
                for (int bx = 0; bx <= b->width - width; bx++) {
                    struct pair pair = {a->grey + ay * a->width + ax,
                                        b->grey + by * b->width + bx,
                                        a->width,
                                        b->width,
                                        width,
                                        height};
                    if (same_whole(&pair, a->tall)) {
                        return true;
                    }
                }
            }
        }
    }
    return false;
}
