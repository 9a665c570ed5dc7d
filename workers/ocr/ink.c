#include "workers/ocr/ink_levels.h"

#include <string.h>

enum {
    RING = 2,           /* pixels around the ink box that are looked at */
    RING_GAP = 2,       /* pixels left out between them: anti-aliasing and codec ringing */
    PLAIN_SPREAD = 18,  /* levels by which plain paper may vary */
    PLAIN_PERCENT = 70, /* of the ring's pixels have to lie within that */
    FAINT_SPREAD = 6,   /* the same three of faint lines */
    FAINT_PERCENT = 90,
    FAINT_REACH_MIN = 18,
    LUMA_PERCENT = 40,       /* of a pixel's distance in colour that luma has to have */
    LUMA_TELLS_PERCENT = 85, /* of the strong ink's pixels for which it does */
};

/* Text on anything has two groups of pixels; texture and gradients have not. */
static const double CLARITY_MIN = 0.55;
/* Where a codec left noise instead of letters, faint lines of it have less than these. */
static const double FAINT_CLARITY_MIN = 0.75;
enum { CONTRAST_MIN = 36, FAINT_CONTRAST_MIN = 20 };

static void add_ring_row(const struct ocr_frame *frame, const struct ocr_box *box, int y,
                         struct histogram ring[3])
{
    if (y < 0 || y >= frame->height) {
        return;
    }
    for (int x = box->x; x < ocr_right(box); x++) {
        size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
        for (int c = 0; c < 3; c++) {
            ring[c].count[frame->plane[c][at]]++;
            ring[c].total++;
        }
    }
}

/* Pixels around the box, none of its own. */
static void look_at_ring(const struct ocr_frame *frame, const struct ocr_box *box,
                         struct histogram ring[3])
{
    struct ocr_box rows = {box->x - RING_GAP - RING, box->y, box->width + 2 * (RING_GAP + RING),
                           box->height};
    rows = ocr_box_clip(&rows, frame->width, frame->height);

    for (int i = 0; i < RING; i++) {
        add_ring_row(frame, &rows, box->y - RING_GAP - 1 - i, ring);
        add_ring_row(frame, &rows, ocr_bottom(box) + RING_GAP + i, ring);
    }
    for (int y = rows.y; y < ocr_bottom(&rows); y++) {
        struct ocr_box left = {box->x - RING_GAP - RING, y, RING, 1};
        struct ocr_box right = {ocr_right(box) + RING_GAP, y, RING, 1};
        left = ocr_box_clip(&left, frame->width, frame->height);
        right = ocr_box_clip(&right, frame->width, frame->height);
        add_ring_row(frame, &left, y, ring);
        add_ring_row(frame, &right, y, ring);
    }
}

static bool is_plain(const struct histogram *ring, int median, int spread, unsigned percent)
{
    uint64_t near = 0;

    for (int level = ocr_max(median - spread, 0); level <= ocr_min(median + spread, 255); level++) {
        near += ring->count[level];
    }
    return near * 100 >= (uint64_t)ring->total * percent;
}

/* Levels of the weakest ink. */
static int reach_min(const struct ocr_ink *ink)
{
    return ink->is_faint ? FAINT_REACH_MIN : OCR_REACH_MIN;
}

static inline int distance(const struct ocr_frame *frame, size_t at, const uint8_t paper[3])
{
    int red = abs(frame->plane[OCR_RED][at] - paper[0]);
    int green = abs(frame->plane[OCR_GREEN][at] - paper[1]);
    int blue = abs(frame->plane[OCR_BLUE][at] - paper[2]);

    return ocr_max(red, ocr_max(green, blue));
}

static inline int paper_luma(const struct ocr_ink *ink)
{
    return (77 * ink->paper[0] + 150 * ink->paper[1] + 29 * ink->paper[2]) >> 8;
}

/* The strongest ink, but not a lone pixel: the middle of the upper half of the ink. */
static void take_reach(const struct histogram *reach, struct ocr_ink *ink)
{
    struct split split = ocr_otsu(reach);
    uint32_t below = 0;

    for (int level = 0; level <= split.threshold; level++) {
        below += reach->count[level];
    }
    double ink_share = reach->total ? (double)(reach->total - below) / reach->total : 0;
    ink->low = ocr_max(ocr_quantile(reach, 1 - ink_share * 0.3), reach_min(ink));
    ink->high = 0;
    ink->clarity = split.quality;
}

/* Whether nearly all strong ink differs from the paper in luma, too. Videos keep colour at half the
 * resolution: a blue letter on black is blurred in blue and sharp in luma. But luma is blind to yellow
 * on white, and one such word is enough to look at colours. */
static bool luma_tells(const struct ocr_frame *frame, const struct ocr_box *box,
                       const struct ocr_ink *ink, int strong)
{
    int luma = paper_luma(ink), seen = 0, told = 0;

    for (int y = box->y; y < ocr_bottom(box); y++) {
        for (int x = box->x; x < ocr_right(box); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            int away = distance(frame, at, ink->paper);
            if (away > strong) {
                int luma_away = abs(frame->plane[OCR_LUMA][at] - luma);
                seen++;
                told += luma_away * 100 >= away * LUMA_PERCENT && luma_away >= reach_min(ink);
            }
        }
    }
    return seen && told * 100 >= seen * LUMA_TELLS_PERCENT;
}

static void measure_plain(const struct ocr_frame *frame, const struct ocr_box *box,
                          struct ocr_ink *ink)
{
    struct histogram reach = {{0}, 0}, luma_reach = {{0}, 0};
    int64_t lighter = 0;
    int luma = paper_luma(ink);

    for (int y = box->y; y < ocr_bottom(box); y++) {
        for (int x = box->x; x < ocr_right(box); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            int away = distance(frame, at, ink->paper), here = frame->plane[OCR_LUMA][at];
            reach.count[away]++;
            luma_reach.count[abs(here - luma)]++;
            if (away >= reach_min(ink)) {
                lighter += here > luma ? 1 : -1;
            }
        }
    }
    reach.total = luma_reach.total = (uint32_t)(box->width * box->height);
    ink->light = lighter > 0;
    ink->by_luma = luma_tells(frame, box, ink, ocr_otsu(&reach).threshold);
    take_reach(ink->by_luma ? &luma_reach : &reach, ink);
}

/* Whether the paper around the box is plain, and its colour. */
static bool look_at_paper(const struct ocr_frame *frame, const struct ocr_box *box,
                          struct ocr_ink *ink)
{
    struct histogram ring[3] = {{{0}, 0}, {{0}, 0}, {{0}, 0}};
    bool plain = true;

    look_at_ring(frame, box, ring);
    for (int c = 0; c < 3; c++) {
        int median = ocr_quantile(&ring[c], 0.5);
        ink->paper[c] = (uint8_t)median;
        plain = plain && (ink->is_faint ? is_plain(&ring[c], median, FAINT_SPREAD, FAINT_PERCENT)
                                        : is_plain(&ring[c], median, PLAIN_SPREAD, PLAIN_PERCENT));
    }
    return plain;
}

void ocr_ink_measure(const struct ocr_frame *frame, const struct ocr_box *box,
                     struct ocr_ink *ret_ink)
{
    struct ocr_box inside = ocr_box_clip(box, frame->width, frame->height);

    *ret_ink = (struct ocr_ink){.kind = OCR_INK_FLAT};
    if (look_at_paper(frame, &inside, ret_ink)) {
        measure_plain(frame, &inside, ret_ink);
    } else {
        ocr_ink_on_picture(frame, &inside, ret_ink);
    }
}

void ocr_ink_measure_faint(const struct ocr_frame *frame, const struct ocr_box *box,
                           struct ocr_ink *ret_ink)
{
    struct ocr_box inside = ocr_box_clip(box, frame->width, frame->height);

    *ret_ink = (struct ocr_ink){.kind = OCR_INK_FLAT, .is_faint = true};
    if (look_at_paper(frame, &inside, ret_ink)) {
        measure_plain(frame, &inside, ret_ink);
    }
}

static int contrast(const struct ocr_ink *ink)
{
    return ink->kind == OCR_INK_FLAT ? ink->low : ink->high - ink->low;
}

bool ocr_ink_is_clear(const struct ocr_ink *ink)
{
    if (ink->is_faint) {
        return contrast(ink) >= FAINT_CONTRAST_MIN && ink->clarity >= FAINT_CLARITY_MIN;
    }
    return contrast(ink) >= CONTRAST_MIN && ink->clarity >= CLARITY_MIN;
}

/* Grey of every level of the channel (or distance) that the ink is looked at in. */
static void make_table(const struct ocr_ink *ink, uint8_t table[256])
{
    for (int level = 0; level < 256; level++) {
        int grey;
        if (ink->kind == OCR_INK_FLAT) {
            grey = 255 - level * 255 / ocr_max(ink->low, 1);
        } else {
            int span = ocr_max(ink->high - ink->low, 1);
            grey = (level - ink->low) * 255 / span;
            grey = ink->kind == OCR_INK_LIGHT ? 255 - grey : grey;
        }
        table[level] = (uint8_t)ocr_max(0, ocr_min(255, grey));
    }
}

void ocr_ink_apply(const struct ocr_ink *ink, const struct ocr_frame *frame,
                   const struct ocr_box *box, uint8_t *grey)
{
    struct ocr_box inside = ocr_box_clip(box, frame->width, frame->height);
    uint8_t table[256];
    int luma = paper_luma(ink);

    make_table(ink, table);
    memset(grey, 255, (size_t)box->width * (size_t)box->height);
    for (int y = inside.y; y < ocr_bottom(&inside); y++) {
        size_t at = (size_t)y * (size_t)frame->width + (size_t)inside.x;
        uint8_t *row = grey + (size_t)(y - box->y) * (size_t)box->width + (inside.x - box->x);
        for (int x = 0; x < inside.width; x++, at++) {
            int level = ink->by_luma                 ? abs(frame->plane[OCR_LUMA][at] - luma)
                        : ink->kind == OCR_INK_FLAT  ? distance(frame, at, ink->paper)
                        : ink->kind == OCR_INK_LIGHT ? darkest(frame, at)
                                                     : lightest(frame, at);
            row[x] = table[level];
        }
    }
}
