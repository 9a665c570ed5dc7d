#include "workers/ocr/tracks/match.h"

#include <math.h>
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

/* Correlation of the part of a line that differs most from another picture of it. Of 400 lines of the real
 * recordings, those that stood in the frame before have 0.9 and more, 0.6 and more where they were blurred there; another
 * digit has 0.8 at most. Most lines of rendered pages that moved by 0.2 to 0.5 pixels have 0.90 and more where both
 * pictures are taken half way between (0.76 to 0.84 otherwise). */
static const double PART_SAME = 0.84, PART_BLURRED = 0.60;
/* Share of the sharp picture's changes of level along the rows that a blurred one has at most. */
static const double BLURRED_CHANGES = 0.93;
/* A line that fades in is there from half its strength on. */
static const double STRENGTH_MIN = 0.50;
/* Share of the line's variance below which a part has no ink. */
static const double PART_INK = 0.10;

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

static int strong_pixels(const struct pair *pair, const struct cv_box *cell)
{
    int strong = 0;

    for (int y = cell->y; y < cv_box_bottom(cell); y++) {
        const uint8_t *a = pair->a + (size_t)y * (size_t)pair->a_stride;
        const uint8_t *b = pair->b + (size_t)y * (size_t)pair->b_stride;
        for (int x = cell->x; x < cv_box_right(cell); x++) {
            strong += abs(a[x] - b[x]) > STRONG_DIFFERENCE;
        }
    }
    return strong;
}

static bool same_cell(const struct pair *pair, const struct cv_box *cell)
{
    int sum = 0, area = cell->width * cell->height;

    for (int y = cell->y; y < cv_box_bottom(cell); y++) {
        sum += row_difference(pair, y, cell->x, cv_box_right(cell));
    }
    if (sum <= CELL_DIFFERENCE * area) {
        return true;
    }
    return sum <= CELL_DIFFERENCE_MAX * area && strong_pixels(pair, cell) < STRONG_PIXELS;
}

/* No cell of about a third of a letter differs: one changed digit is enough to tell two lines. */
static bool same_cells(const struct pair *pair, int tall)
{
    int cell = cv_max(5, cv_min(tall / 3, 12));

    for (int y = 0; y < pair->height; y += cv_max(cell / 2, 1)) {
        int rows = cv_min(cell, pair->height - y);
        for (int x = 0; x < pair->width; x += cv_max(cell / 2, 1)) {
            struct cv_box here = {x, y, cv_min(cell, pair->width - x), rows};
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

/* NULL: it is the same line; else in what it differs. */
static const char *whole_differs(const struct pair *pair, int tall)
{
    int64_t area = (int64_t)pair->width * pair->height;

    return total_difference(pair, 1) > MEAN_DIFFERENCE * area ? "the whole place looks different"
           : !same_cells(pair, tall) ? "a part as large as a third of a letter looks different"
                                     : NULL;
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
static void find_part(const struct pair *pair, int tall, struct ocr_match *match)
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
    match->part = rows >= cv_max(3, tall / 5) && rows < pair->height &&
                  has_ink(pair, match->first, match->last) && same_cells(&piece, tall);
}

int ocr_match(const struct ocr_crop *crop, const struct cv_frame *frame, struct cv_point at,
              struct ocr_match *ret_match, struct cv_error *error)
{
    struct cv_box around = {at.x - OCR_MATCH_REACH, at.y - OCR_MATCH_REACH, crop->width + SIDE,
                            crop->height + SIDE};
    struct ocr_match match = {0};
    struct cv_box visible = cv_box_clip(&around, frame->width, frame->height);

    if (visible.width < crop->width / 2 || visible.height < 3) {
        match.differs = "less than half of it would be in the picture";
        *ret_match = match;
        return 0;
    }
    cv_auto_free uint8_t *grey = malloc((size_t)around.width * (size_t)around.height);
    CV_TRY_MEMORY(grey, error, "comparing a text line");
    cv_ink_apply(&crop->ink, frame, &around, OCR_MATCH_REACH, grey);
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
    match.differs = whole_differs(&pair, crop->tall);
    match.whole = !match.differs;
    match.last = crop->height;
    if (!match.whole) {
        find_part(&pair, crop->tall, &match);
    }
    *ret_match = match;
    return 0;
}

bool ocr_match_crops(const struct ocr_crop *a, const struct ocr_crop *b)
{
    int width = cv_min(a->width, b->width), height = cv_min(a->height, b->height);

    if (abs(a->width - b->width) > OCR_MATCH_REACH ||
        abs(a->height - b->height) > OCR_MATCH_REACH || a->ink.kind != b->ink.kind ||
        a->ink.light != b->ink.light) {
        return false;
    }
    struct pair pair = {a->grey, b->grey, a->width, b->width, width, height};
    return !whole_differs(&pair, a->tall);
}

/* Sums over the pixels of two pictures. */
struct sums {
    double a, b, aa, bb, ab, count;
};

static void add_columns(const struct pair *pair, int from, int to, struct sums *sums)
{
    for (int y = 0; y < pair->height; y++) {
        const uint8_t *a = pair->a + (ptrdiff_t)y * pair->a_stride;
        const uint8_t *b = pair->b + (ptrdiff_t)y * pair->b_stride;
        int64_t sum_a = 0, sum_b = 0, sum_aa = 0, sum_bb = 0, sum_ab = 0;
        for (int x = from; x < to; x++) {
            sum_a += a[x];
            sum_b += b[x];
            sum_aa += a[x] * a[x];
            sum_bb += b[x] * b[x];
            sum_ab += a[x] * b[x];
        }
        sums->a += (double)sum_a;
        sums->b += (double)sum_b;
        sums->aa += (double)sum_aa;
        sums->bb += (double)sum_bb;
        sums->ab += (double)sum_ab;
    }
    sums->count += (double)(to - from) * pair->height;
}

/* Of the first picture's levels. */
static double variance(const struct sums *sums)
{
    return sums->aa / sums->count - sums->a * sums->a / (sums->count * sums->count);
}

static double correlation(const struct sums *sums)
{
    double a = variance(sums);
    double b = sums->bb / sums->count - sums->b * sums->b / (sums->count * sums->count);
    double both = sums->ab / sums->count - sums->a * sums->b / (sums->count * sums->count);

    return a > 0 && b > STRENGTH_MIN * STRENGTH_MIN * a ? both / sqrt(a * b) : 0;
}

static struct sums sums_of(const struct pair *pair)
{
    struct sums sums = {0};

    add_columns(pair, 0, pair->width, &sums);
    return sums;
}

/* The least correlation of all parts, each as wide as the line is high, that have ink. */
static double least_correlation(const struct pair *pair)
{
    struct sums all = sums_of(pair);
    double least = correlation(&all), ink = variance(&all) * PART_INK;
    int width = cv_min(pair->height, pair->width);

    for (int x = 0; x + width / 2 < pair->width; x += cv_max(width / 2, 1)) {
        struct sums part = {0};
        add_columns(pair, x, cv_min(x + width, pair->width), &part);
        if (variance(&part) > ink) {
            least = fmin(least, correlation(&part));
        }
    }
    return least;
}

/* The offset at which one picture in another has the highest correlation, in pixels and parts of a pixel. */
struct peak {
    int right, down;      /* of the upper left corner */
    double beside, below; /* from there, -0.5 to 0.5 */
    double correlation;
};

/* The highest point of the parabola through three values one pixel apart. */
static double peak_between(double before, double at, double after)
{
    double bend = before - 2 * at + after;

    return bend < 0 ? fmax(-0.5, fmin((before - after) / (2 * bend), 0.5)) : 0;
}

/* `pair->b` is the first of the offsets. */
static struct peak find_peak(const struct pair *pair)
{
    double at[SIDE + 1][SIDE + 1];
    struct peak peak = {.correlation = -1};

    for (int i = 0; i < (SIDE + 1) * (SIDE + 1); i++) {
        int right = i % (SIDE + 1), down = i / (SIDE + 1);
        struct pair moved = *pair;
        moved.b += (ptrdiff_t)down * pair->b_stride + right;
        struct sums sums = sums_of(&moved);
        at[down][right] = correlation(&sums);
        if (at[down][right] > peak.correlation) {
            peak = (struct peak){right, down, 0, 0, at[down][right]};
        }
    }
    if (peak.right > 0 && peak.right < SIDE) {
        const double *here = &at[peak.down][peak.right];
        peak.beside = peak_between(here[-1], here[0], here[1]);
    }
    if (peak.down > 0 && peak.down < SIDE) {
        peak.below = peak_between(at[peak.down - 1][peak.right], peak.correlation,
                                  at[peak.down + 1][peak.right]);
    }
    return peak;
}

/* Copies a picture as it is `right` and `down` of its pixels, between -1 and 1: between four of them. */
static void copy_between(const struct pair *picture, double right, double down, uint8_t *to)
{
    double across = fabs(right), along = fabs(down);

    for (int y = 0; y < picture->height; y++) {
        int other = cv_max(0, cv_min(y + (down < 0 ? -1 : 1), picture->height - 1));
        const uint8_t *here = picture->a + (ptrdiff_t)y * picture->a_stride;
        const uint8_t *there = picture->a + (ptrdiff_t)other * picture->a_stride;
        for (int x = 0; x < picture->width; x++) {
            int beside = cv_max(0, cv_min(x + (right < 0 ? -1 : 1), picture->width - 1));
            double level = (1 - along) * ((1 - across) * here[x] + across * here[beside]) +
                           along * ((1 - across) * there[x] + across * there[beside]);
            *to++ = (uint8_t)(level + 0.5);
        }
    }
}

/* The least correlation where one picture lies between the pixels of the other one: each is moved by half of the way to
 * the other, so that both are blurred alike. */
static int least_between(const struct pair *pair, const struct peak *peak, double *ret_least,
                         struct cv_error *error)
{
    size_t area = (size_t)pair->width * (size_t)pair->height;
    cv_auto_free uint8_t *both = malloc(2 * area);
    struct pair other = {
        .a = pair->b, .a_stride = pair->b_stride, .width = pair->width, .height = pair->height};

    CV_TRY_MEMORY(both, error, "comparing a text line");
    copy_between(pair, -peak->beside / 2, -peak->below / 2, both);
    copy_between(&other, peak->beside / 2, peak->below / 2, both + area);
    struct pair moved = {both, both + area, pair->width, pair->width, pair->width, pair->height};
    *ret_least = least_correlation(&moved);
    return 0;
}

/* How much levels change along the rows. */
static int64_t changes(const uint8_t *grey, int stride, int width, int height)
{
    int64_t sum = 0;

    for (int y = 0; y < height; y++, grey += stride) {
        for (int x = 1; x < width; x++) {
            sum += abs(grey[x] - grey[x - 1]);
        }
    }
    return sum;
}

struct comparison {
    double least; /* correlation of all parts; 0 where the whole line has less than PART_BLURRED */
    double was, is; /* changes of level along the rows: of the place, of the line */
};

static int compare(const struct ocr_crop *crop, const struct cv_frame *frame, struct cv_point at,
                   struct comparison *ret_comparison, struct cv_error *error)
{
    struct cv_box around = {at.x - OCR_MATCH_REACH, at.y - OCR_MATCH_REACH, crop->width + SIDE,
                            crop->height + SIDE};
    struct cv_box inside = cv_box_clip(&around, frame->width, frame->height);
    struct comparison found = {.least = 0};

    *ret_comparison = found;
    if (inside.width < crop->width || inside.height < crop->height) {
        return 0;
    }
    cv_auto_free uint8_t *grey = malloc((size_t)around.width * (size_t)around.height);
    CV_TRY_MEMORY(grey, error, "comparing a text line");
    cv_ink_apply(&crop->ink, frame, &around, OCR_MATCH_REACH, grey);
    struct pair pair = {crop->grey, grey, crop->width, around.width, crop->width, crop->height};
    struct peak peak = find_peak(&pair);
    if (peak.correlation < PART_BLURRED) {
        return 0;
    }
    pair.b += (ptrdiff_t)peak.down * around.width + peak.right;
    found.least = least_correlation(&pair);
    if (found.least < PART_SAME) {
        double between;
        CV_TRY(least_between(&pair, &peak, &between, error));
        found.least = fmax(found.least, between);
    }
    found.was = (double)changes(pair.b, around.width, crop->width, crop->height);
    found.is = (double)changes(crop->grey, crop->width, crop->width, crop->height);
    *ret_comparison = found;
    return 0;
}

int ocr_match_likeness(const struct ocr_crop *crop, const struct cv_frame *frame,
                       struct cv_point at, enum ocr_likeness *ret_likeness, struct cv_error *error)
{
    struct comparison found;

    CV_TRY(compare(crop, frame, at, &found, error));
    *ret_likeness = found.least < PART_BLURRED                ? OCR_LIKENESS_NONE
                    : found.was <= BLURRED_CHANGES * found.is ? OCR_LIKENESS_BLURRED
                    : found.least < PART_SAME                 ? OCR_LIKENESS_NONE
                    : found.is < BLURRED_CHANGES * found.was  ? OCR_LIKENESS_SHARPER
                                                              : OCR_LIKENESS_SAME;
    return 0;
}
