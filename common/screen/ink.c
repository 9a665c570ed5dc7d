#include "common/screen/ink.h"

#include "common/screen/ink_levels.h"
#include "common/screen/ink_on_picture.h"

#include <string.h>

/* ---- ink on paper ---------------------------------------------------------------------------- */

enum {
    RING = 2,        /* pixels around the ink box that are looked at */
    RING_GAP = 2,    /* pixels left out between them: anti-aliasing and codec ringing */
    BETWEEN = 3,     /* the same between letters */
    BETWEEN_MIN = 4, /* such pixels in a row of the line, on the average, tell the paper's colour */
    PLAIN_SPREAD = 18,  /* levels by which plain paper may vary */
    PLAIN_PERCENT = 70, /* of the ring's pixels have to lie within that */
    /* Of the box's pixels, outlines of 13 lines in films have 14 to 55; 85 lines without one on dark pages 0 (looked at). */
    OUTLINE_PERCENT = 5,
    RING_PERCENT =
        45, /* of the ring's pixels are of that paper: the rest may be other rows and backgrounds */
    TWO_SPREAD = 9,   /* levels by which each of two papers may vary: codecs leave less */
    TWO_PERCENT = 80, /* of the pixels of ring and gaps have to lie within that */
    FAINT_SPREAD = 6, /* the same three of faint lines */
    FAINT_PERCENT = 90,
    FAINT_REACH_MIN = 18,
    LUMA_PERCENT = 35, /* of the ink's distance in colour that luma has to have */
    PART_PERCENT = 12, /* of the line's contrast that ink has at least in a part of it */
};

/* Text on anything has two groups of pixels; texture and gradients have not. */
static const double CLARITY_MIN = 0.55;
/* Where a codec left noise instead of letters, faint lines of it have less than these. */
static const double FAINT_CLARITY_MIN = 0.75;
/* Of the ink: its strongest, which becomes black. */
static const double STRONGEST = 0.3;
/* Of the pixels of a part: letters cover less. */
static const double INK_SHARE_MAX = 0.6;
enum { CONTRAST_MIN = 36, FAINT_CONTRAST_MIN = 20 };

static void add_ring_row(const struct cv_frame *frame, const struct cv_box *box, int y,
                         struct cv_histogram ring[3])
{
    if (y < 0 || y >= frame->height) {
        return;
    }
    for (int x = box->x; x < cv_box_right(box); x++) {
        size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
        for (int c = 0; c < 3; c++) {
            ring[c].count[frame->plane[c][at]]++;
            ring[c].total++;
        }
    }
}

/* Pixels around the box, none of its own. */
static void measure_ring(const struct cv_frame *frame, const struct cv_box *box,
                         struct cv_histogram ring[3])
{
    struct cv_box rows = {box->x - RING_GAP - RING, box->y, box->width + 2 * (RING_GAP + RING),
                          box->height};
    rows = cv_box_clip(&rows, frame->width, frame->height);

    for (int i = 0; i < RING; i++) {
        add_ring_row(frame, &rows, box->y - RING_GAP - 1 - i, ring);
        add_ring_row(frame, &rows, cv_box_bottom(box) + RING_GAP + i, ring);
    }
    for (int y = rows.y; y < cv_box_bottom(&rows); y++) {
        struct cv_box left = {box->x - RING_GAP - RING, y, RING, 1};
        struct cv_box right = {cv_box_right(box) + RING_GAP, y, RING, 1};
        left = cv_box_clip(&left, frame->width, frame->height);
        right = cv_box_clip(&right, frame->width, frame->height);
        add_ring_row(frame, &left, y, ring);
        add_ring_row(frame, &right, y, ring);
    }
}

static bool is_plain(const struct cv_histogram *ring, int median, int spread, unsigned percent)
{
    uint64_t near = 0;

    for (int level = cv_max(median - spread, 0); level <= cv_min(median + spread, 255); level++) {
        near += ring->count[level];
    }
    return near * 100 >= (uint64_t)ring->total * percent;
}

/* Levels of the weakest ink. */
static int reach_min(const struct cv_ink *ink)
{
    return ink->is_faint ? FAINT_REACH_MIN : CV_INK_REACH_MIN;
}

static inline int paper_luma(const struct cv_ink *ink)
{
    return (77 * ink->paper[0] + 150 * ink->paper[1] + 29 * ink->paper[2]) >> 8;
}

/* The strongest ink, but not a lone pixel: the middle of the upper half of the ink. */
static void set_reach(const struct cv_histogram *reach, struct cv_ink *ink)
{
    struct cv_split split = cv_otsu(reach);
    uint32_t below = 0;

    for (int level = 0; level <= split.threshold; level++) {
        below += reach->count[level];
    }
    double ink_share = reach->total ? (double)(reach->total - below) / reach->total : 0;
    ink->low = cv_max(cv_quantile(reach, 1 - ink_share * STRONGEST), reach_min(ink));
    ink->high = 0;
    ink->clarity = split.quality;
}

/* Whether luma tells ink from paper. Videos keep colour at half the resolution: a blue letter on black is
 * blurred in blue and sharp in luma. But luma is blind to yellow on white. */
static bool luma_tells(const struct cv_histogram *reach, const struct cv_histogram *luma_reach,
                       const struct cv_ink *ink)
{
    struct cv_ink colour = *ink, luma = *ink;

    set_reach(reach, &colour);
    set_reach(luma_reach, &luma);
    return luma.low * 100 >= colour.low * LUMA_PERCENT;
}

/* The levels of the columns around one part; false where there is no ink. */
static bool measure_part(const struct cv_frame *frame, const struct cv_box *columns,
                         const struct cv_ink *ink, struct cv_ink_levels *ret_levels)
{
    struct cv_histogram levels = {{0}, 0};

    for (int y = columns->y; y < cv_box_bottom(columns); y++) {
        const uint8_t *row = frame->plane[CV_LUMA] + (size_t)y * (size_t)frame->width;
        for (int x = columns->x; x < cv_box_right(columns); x++) {
            levels.count[row[x]]++;
        }
    }
    levels.total = (uint32_t)(columns->width * columns->height);
    struct cv_split split = cv_otsu(&levels);
    double ink_share = ink->light ? split.high_share : 1 - split.high_share;
    double paper_middle = (1 - ink_share) / 2, strongest = ink_share * STRONGEST;
    int paper = cv_quantile(&levels, ink->light ? paper_middle : 1 - paper_middle);
    int strong = cv_quantile(&levels, ink->light ? 1 - strongest : strongest);
    int reach = ink->light ? strong - paper : paper - strong;
    *ret_levels = (struct cv_ink_levels){(uint8_t)paper, (uint8_t)strong};
    return ink_share <= INK_SHARE_MAX && reach >= reach_min(ink) &&
           reach * 100 >= ink->low * PART_PERCENT;
}

/* Gives a part the levels of the nearest one with ink, if there is one. */
static void copy_nearest(struct cv_ink *ink, const bool *has_ink, int part)
{
    for (int away = 1; away < ink->part_count; away++) {
        int at = part - away >= 0 && has_ink[part - away] ? part - away : part + away;
        if (at < ink->part_count && has_ink[at]) {
            ink->parts[part] = ink->parts[at];
            return;
        }
    }
}

/* Where a mark begins or ends, the parts nearby have both papers, and what they have for ink is the other paper. They
 * get the levels of the nearest part that has ink. */
static void leave_out_papers(struct cv_ink *ink, int height)
{
    int reach = height / ink->part_width + 2;
    bool has_ink[CV_INK_PARTS];

    for (int i = 0; i < ink->part_count; i++) {
        int strong = ink->parts[i].ink;
        has_ink[i] = true;
        for (int k = cv_max(i - reach, 0); k <= cv_min(i + reach, ink->part_count - 1); k++) {
            const struct cv_ink_levels *near = &ink->parts[k];
            has_ink[i] = has_ink[i] && abs(strong - near->paper) >= abs(strong - near->ink);
        }
    }
    for (int i = 0; i < ink->part_count; i++) {
        if (!has_ink[i]) {
            copy_nearest(ink, has_ink, i);
        }
    }
}

/* The levels of all parts; one without ink has those of the nearest one with ink. */
static void measure_parts(const struct cv_frame *frame, const struct cv_box *box,
                          struct cv_ink *ink)
{
    bool has_ink[CV_INK_PARTS];
    int luma = paper_luma(ink), wanted = cv_max(box->height / 2, 4);

    ink->part_width = cv_max(wanted, box->width / CV_INK_PARTS + 1);
    ink->part_count = cv_max(box->width / ink->part_width, 1);
    for (int i = 0; i < ink->part_count; i++) {
        int from = cv_max(i * ink->part_width - box->height, 0);
        int to = cv_min((i + 1) * ink->part_width + box->height, box->width);
        struct cv_box columns = {box->x + from, box->y, to - from, box->height};
        has_ink[i] = measure_part(frame, &columns, ink, &ink->parts[i]);
    }
    for (int i = 0; i < ink->part_count; i++) {
        if (has_ink[i]) {
            continue;
        }
        int strong = luma + (ink->light ? ink->low : -ink->low);
        ink->parts[i] =
            (struct cv_ink_levels){(uint8_t)luma, (uint8_t)cv_max(0, cv_min(strong, 255))};
        copy_nearest(ink, has_ink, i);
    }
}

static void measure_plain(const struct cv_frame *frame, const struct cv_box *box,
                          struct cv_ink *ink)
{
    struct cv_histogram reach = {{0}, 0}, luma_reach = {{0}, 0};
    int luma = paper_luma(ink);

    for (int y = box->y; y < cv_box_bottom(box); y++) {
        for (int x = box->x; x < cv_box_right(box); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            int away = cv_ink_distance(ink, frame, at), here = frame->plane[CV_LUMA][at];
            reach.count[away]++;
            luma_reach.count[abs(here - luma)]++;
        }
    }
    reach.total = luma_reach.total = (uint32_t)(box->width * box->height);
    ink->by_luma = luma_tells(&reach, &luma_reach, ink);
    set_reach(ink->by_luma ? &luma_reach : &reach, ink);
    if (ink->by_luma) {
        measure_parts(frame, box, ink);
    }
}

/* The paper between the letters: pixels with BETWEEN more of the paper's side on their left and right. */
static void measure_between(const struct cv_frame *frame, const struct cv_box *box, bool is_light,
                            struct cv_histogram between[3])
{
    struct cv_histogram levels = {{0}, 0};

    for (int y = box->y; y < cv_box_bottom(box); y++) {
        const uint8_t *row = frame->plane[CV_LUMA] + (size_t)y * (size_t)frame->width;
        for (int x = box->x; x < cv_box_right(box); x++) {
            levels.count[row[x]]++;
        }
    }
    levels.total = (uint32_t)(box->width * box->height);
    int threshold = cv_otsu(&levels).threshold;
    for (int y = box->y; y < cv_box_bottom(box); y++) {
        size_t row = (size_t)y * (size_t)frame->width;
        int run = 0;
        for (int x = box->x; x < cv_box_right(box); x++) {
            bool is_paper = (frame->plane[CV_LUMA][row + (size_t)x] > threshold) != is_light;
            run = is_paper ? run + 1 : 0;
            for (int c = 0; run > 2 * BETWEEN && c < 3; c++) {
                between[c].count[frame->plane[c][row + (size_t)(x - BETWEEN)]]++;
                between[c].total++;
            }
        }
    }
}

/* Whether paper is plain, and its colour. */
static bool find_paper(const struct cv_histogram paper[3], struct cv_ink *ink)
{
    bool plain = true;

    for (int c = 0; c < 3; c++) {
        int median = cv_quantile(&paper[c], 0.5);
        ink->paper[c] = (uint8_t)median;
        plain = plain && (ink->is_faint ? is_plain(&paper[c], median, FAINT_SPREAD, FAINT_PERCENT)
                                        : is_plain(&paper[c], median, PLAIN_SPREAD, PLAIN_PERCENT));
    }
    return plain;
}

/* Whether nearly all levels are near to one of two. */
static bool are_near(const struct cv_histogram *levels, int first, int second)
{
    uint64_t near = 0;

    for (int level = 0; level < 256; level++) {
        bool is_near = cv_min(abs(level - first), abs(level - second)) <= TWO_SPREAD;
        near += is_near ? levels->count[level] : 0;
    }
    return near * 100 >= (uint64_t)levels->total * TWO_PERCENT;
}

/* Whether the paper around the box and between the letters has two colours, each of them plain: of a mark behind some
 * words, and of the page. */
static bool find_two_papers(const struct cv_histogram ring[3], const struct cv_histogram between[3],
                            struct cv_ink *ink)
{
    for (int c = 0; c < 3; c++) {
        int first = cv_quantile(&ring[c], 0.5);
        struct cv_histogram rest = ring[c];
        for (int level = cv_max(first - TWO_SPREAD, 0); level <= cv_min(first + TWO_SPREAD, 255);
             level++) {
            rest.total -= rest.count[level];
            rest.count[level] = 0;
        }
        int second = cv_quantile(&rest, 0.5);
        if (!are_near(&ring[c], first, second) || !are_near(&between[c], first, second)) {
            return false;
        }
        ink->paper[c] = (uint8_t)first;
    }
    return true;
}

/* How many colours the plain paper has, around the box or, where other rows or another background are near, in it: one, or
 * two; 0 where it is not plain. */
static int measure_paper(const struct cv_frame *frame, const struct cv_box *box, struct cv_ink *ink)
{
    struct cv_histogram ring[3] = {{{0}, 0}}, between[3] = {{{0}, 0}};

    measure_ring(frame, box, ring);
    if (find_paper(ring, ink)) {
        return 1;
    }
    measure_between(frame, box, ink->light, between);
    if (between[0].total < (uint32_t)(BETWEEN_MIN * box->height)) {
        return 0;
    }
    bool is_one = find_paper(between, ink);
    for (int c = 0; c < 3; c++) {
        is_one = is_one && is_plain(&ring[c], ink->paper[c], PLAIN_SPREAD, RING_PERCENT);
    }
    return is_one ? 1 : !ink->is_faint && find_two_papers(ring, between, ink) ? 2 : 0;
}

/* Whether enough of the box is darker than the paper to be an outline of light letters. */
static bool has_outline(const struct cv_frame *frame, const struct cv_box *box,
                        const struct cv_ink *ink)
{
    int luma = paper_luma(ink), count = 0;

    for (int y = box->y; y < cv_box_bottom(box); y++) {
        const uint8_t *row = frame->plane[CV_LUMA] + (size_t)y * (size_t)frame->width;
        for (int x = box->x; x < cv_box_right(box); x++) {
            count += luma - row[x] >= CONTRAST_MIN;
        }
    }
    return count * 100 >= box->width * box->height * OUTLINE_PERCENT;
}

/* On plain paper, too, light letters may have an outline: they are its fill, and the outline is no part of them. Dark
 * ones are more often the shadow of light letters. */
static void take_fill(const struct cv_frame *frame, const struct cv_box *box, struct cv_ink *ink)
{
    struct cv_ink fill = {.kind = CV_INK_FLAT, .light = ink->light};

    if (ink->light && has_outline(frame, box, ink) &&
        cv_ink_measure_on_picture(frame, box, &fill)) {
        *ink = fill;
    }
}

void cv_ink_measure(const struct cv_frame *frame, const struct cv_box *box, bool is_light,
                    struct cv_ink *ret_ink)
{
    struct cv_box inside = cv_box_clip(box, frame->width, frame->height);
    struct cv_ink unknown = {.kind = CV_INK_FLAT, .light = is_light};

    *ret_ink = unknown;
    int papers = measure_paper(frame, &inside, ret_ink);
    if (papers) {
        measure_plain(frame, &inside, ret_ink);
    }
    if (papers == 1) {
        take_fill(frame, &inside, ret_ink);
    }
    if (papers == 2 && ret_ink->part_count) {
        leave_out_papers(ret_ink, inside.height);
    }
    /* Only the parts of a line have each its own paper. */
    if (!papers || (papers == 2 && !ret_ink->part_count)) {
        *ret_ink = unknown;
        cv_ink_measure_on_picture(frame, &inside, ret_ink);
    }
}

void cv_ink_measure_faint(const struct cv_frame *frame, const struct cv_box *box, bool is_light,
                          struct cv_ink *ret_ink)
{
    struct cv_box inside = cv_box_clip(box, frame->width, frame->height);

    *ret_ink = (struct cv_ink){.kind = CV_INK_FLAT, .light = is_light, .is_faint = true};
    if (measure_paper(frame, &inside, ret_ink)) {
        measure_plain(frame, &inside, ret_ink);
    }
}

static int contrast(const struct cv_ink *ink)
{
    return ink->kind == CV_INK_FLAT ? ink->low : ink->high - ink->low;
}

bool cv_ink_is_clear(const struct cv_ink *ink)
{
    if (ink->is_faint) {
        return contrast(ink) >= FAINT_CONTRAST_MIN && ink->clarity >= FAINT_CLARITY_MIN;
    }
    return contrast(ink) >= CONTRAST_MIN && ink->clarity >= CLARITY_MIN;
}

/* Grey of every level of the channel (or distance) that the ink is looked at in. */
static void make_table(const struct cv_ink *ink, uint8_t table[256])
{
    for (int level = 0; level < 256; level++) {
        int grey;
        if (ink->kind == CV_INK_FLAT) {
            grey = 255 - level * 255 / cv_max(ink->low, 1);
        } else {
            int span = cv_max(ink->high - ink->low, 1);
            grey = (level - ink->low) * 255 / span;
            grey = ink->kind == CV_INK_LIGHT ? 255 - grey : grey;
        }
        table[level] = (uint8_t)cv_max(0, cv_min(255, grey));
    }
}

/* How the levels of a column become grey. */
struct column {
    struct cv_ink_levels levels; /* between those of the two parts whose middles it lies between */
    const struct cv_ink_levels
        *beyond; /* of a part nearby with another paper; NULL: there is none */
};

static struct column column_at(const struct cv_ink *ink, int x)
{
    int half = ink->part_width / 2, width = ink->part_width;
    int at = cv_max(0, cv_min(x - half, (ink->part_count - 1) * width));
    int first = at / width, share = at % width;
    int second = cv_min(first + 1, ink->part_count - 1);
    const struct cv_ink_levels *a = &ink->parts[first], *b = &ink->parts[second];
    struct column column = {{(uint8_t)((a->paper * (width - share) + b->paper * share) / width),
                             (uint8_t)((a->ink * (width - share) + b->ink * share) / width)},
                            NULL};

    for (int i = cv_max(first - 1, 0); i <= cv_min(second + 1, ink->part_count - 1); i++) {
        const struct cv_ink_levels *nearest = share * 2 < width ? a : b;
        if (abs(ink->parts[i].paper - nearest->paper) > 2 * PLAIN_SPREAD) {
            column.levels = *nearest;
            column.beyond = &ink->parts[i];
        }
    }
    return column;
}

/* The most bits of a fraction with which 255 levels times 255 still fit an int, where paper and ink
 * are one level apart. */
enum { SCALE_BITS = 15 };

struct scale {
    int ink, factor;
};

static struct scale scale_of(const struct cv_ink_levels *levels)
{
    int span = levels->paper - levels->ink;

    return (struct scale){levels->ink, 255 * (1 << SCALE_BITS) / (span ? span : 1)};
}

static uint8_t grey_of(const struct scale *scale, int level)
{
    int grey = ((level - scale->ink) * scale->factor) >> SCALE_BITS;
    return (uint8_t)(grey < 0 ? 0 : grey > 255 ? 255 : grey);
}

/* `row` is where the first column of `inside` goes. Beside the edge of a mark, paper is what is paper on either side. */
static void apply_parts(const struct cv_ink *ink, const struct cv_frame *frame,
                        const struct cv_box *inside, int first, int stride, uint8_t *row)
{
    for (int x = 0; x < inside->width; x++) {
        struct column column = column_at(ink, first + x);
        struct scale scale = scale_of(&column.levels);
        struct scale other = column.beyond ? scale_of(column.beyond) : scale;
        const uint8_t *from = frame->plane[CV_LUMA] + (size_t)inside->y * (size_t)frame->width +
                              (size_t)(inside->x + x);
        uint8_t *to = row + x;
        for (int y = 0; y < inside->height; y++, from += frame->width, to += stride) {
            uint8_t grey = grey_of(&scale, *from);
            uint8_t beyond = column.beyond ? grey_of(&other, *from) : grey;
            *to = grey > beyond ? grey : beyond;
        }
    }
}

void cv_ink_apply(const struct cv_ink *ink, const struct cv_frame *frame, const struct cv_box *box,
                  int margin, uint8_t *grey)
{
    struct cv_box inside = cv_box_clip(box, frame->width, frame->height);
    uint8_t table[256];

    memset(grey, 255, (size_t)box->width * (size_t)box->height);
    grey += (ptrdiff_t)(inside.y - box->y) * box->width + (inside.x - box->x);
    if (ink->part_count) {
        int first = inside.x - box->x - margin - ink->left;
        apply_parts(ink, frame, &inside, first, box->width, grey);
        return;
    }
    make_table(ink, table);
    for (int y = inside.y; y < cv_box_bottom(&inside); y++, grey += box->width) {
        size_t at = (size_t)y * (size_t)frame->width + (size_t)inside.x;
        for (int x = 0; x < inside.width; x++, at++) {
            int level = ink->kind == CV_INK_FLAT    ? cv_ink_distance(ink, frame, at)
                        : ink->kind == CV_INK_LIGHT ? cv_light_level(frame, at, ink->by_luma)
                                                    : cv_dark_level(frame, at, ink->by_luma);
            grey[x] = table[level];
        }
    }
}
