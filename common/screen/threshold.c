#include "common/screen/threshold.h"

#include <string.h>

enum {
    EDGE_MIN = 20, /* levels within CV_EDGE_REACH that are an edge; noise on plain paper has less */
    COLOUR_MIN = 60, /* levels of a colour alone: codecs leave more noise there than in luma */
    /* Percent of the contrast on one side that there is on the other: rules have 32 and more, the lower edges of filled
     * cells 4 at most. */
    STROKE_MIN = 20,
    COLOUR_TIMES = 2, /* as many times the levels of luma: then a colour tells more */
};

static inline uint8_t least(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

static inline uint8_t most(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

/* The extremes of the column of 2 · CV_EDGE_REACH + 1 pixels at each pixel of row y. `low` and `high` have
 * CV_EDGE_REACH pixels more at each end, which repeat the last ones. */
static void columns_of(const struct cv_frame *frame, enum cv_plane plane, int y, uint8_t *low,
                       uint8_t *high)
{
    size_t width = (size_t)frame->width;
    const uint8_t *rows[2 * CV_EDGE_REACH + 1];

    for (int i = 0; i <= 2 * CV_EDGE_REACH; i++) {
        int row = cv_min(cv_max(y + i - CV_EDGE_REACH, 0), frame->height - 1);
        rows[i] = frame->plane[plane] + (size_t)row * width;
    }
    uint8_t *to_low = low + CV_EDGE_REACH, *to_high = high + CV_EDGE_REACH;
    for (size_t x = 0; x < width; x++) {
        uint8_t a = least(least(rows[0][x], rows[1][x]), least(rows[3][x], rows[4][x]));
        uint8_t b = most(most(rows[0][x], rows[1][x]), most(rows[3][x], rows[4][x]));
        to_low[x] = least(a, rows[2][x]);
        to_high[x] = most(b, rows[2][x]);
    }
    for (size_t i = 0; i < CV_EDGE_REACH; i++) {
        low[i] = to_low[0];
        high[i] = to_high[0];
        to_low[width + i] = to_low[width - 1];
        to_high[width + i] = to_high[width - 1];
    }
}

/* The sides of a row of pixels, and the levels between the extremes around each of them. Where `is_colour`,
 * only pixels change for which this colour tells far more than what was there. */
static void sides_of(const uint8_t *levels, const uint8_t *low, const uint8_t *high, int width,
                     bool is_colour, uint8_t *sides, uint8_t *ranges)
{
    for (int x = 0; x < width; x++) {
        uint8_t a = least(least(low[x], low[x + 1]), least(low[x + 3], low[x + 4]));
        uint8_t b = most(most(high[x], high[x + 1]), most(high[x + 3], high[x + 4]));
        a = least(a, low[x + 2]);
        b = most(b, high[x + 2]);
        uint8_t range = (uint8_t)(b - a), above = (uint8_t)(levels[x] - a);
        uint8_t below = (uint8_t)(b - levels[x]);
        uint8_t side = above > below ? CV_SIDE_LIGHT : CV_SIDE_DARK;
        side = range >= EDGE_MIN ? side : CV_SIDE_NONE;
        uint8_t side_before = sides[x], range_before = ranges[x];
        /* Without a branch, so that compilers make vector code of the loop. */
        bool is_taken =
            !is_colour | (range / COLOUR_TIMES > most(range_before, COLOUR_MIN / COLOUR_TIMES));
        sides[x] = is_taken ? side : side_before;
        ranges[x] = is_taken ? range : range_before;
    }
}

/* By luma, which videos keep sharp, or by the colour that tells far more: yellow on white, red on green. */
static void sides_of_row(const struct cv_frame *frame, int y, uint8_t *scratch, uint8_t *sides,
                         uint8_t *ranges)
{
    static const enum cv_plane planes[] = {CV_LUMA, CV_BLUE, CV_RED};
    uint8_t *low = scratch, *high = scratch + frame->width + 2 * CV_EDGE_REACH;
    size_t row = (size_t)y * (size_t)frame->width;

    for (size_t i = 0; i < CV_COUNT(planes); i++) {
        columns_of(frame, planes[i], y, low, high);
        sides_of(frame->plane[planes[i]] + row, low, high, frame->width, i > 0, sides, ranges);
    }
}

void cv_sides_deinit(struct cv_sides *sides)
{
    free(sides->side);
    free(sides->range);
    *sides = (struct cv_sides){0};
}

int cv_sides_update(const struct cv_frame *frame, struct cv_sides *sides, int from, int to,
                    struct cv_error *error)
{
    size_t width = (size_t)frame->width;
    cv_auto_free uint8_t *scratch = malloc(2 * (width + 2 * CV_EDGE_REACH));

    CV_TRY_MEMORY(scratch, error, "finding text lines");
    for (int y = cv_max(from, 0); y < cv_min(to, frame->height); y++) {
        size_t row = (size_t)y * width;
        sides_of_row(frame, y, scratch, sides->side + row, sides->range + row);
    }
    return 0;
}

int cv_sides_find(const struct cv_frame *frame, struct cv_sides *ret_sides, struct cv_error *error)
{
    size_t area = (size_t)frame->width * (size_t)frame->height;
    cv_auto(cv_sides_deinit) struct cv_sides sides = {.width = frame->width,
                                                      .height = frame->height,
                                                      .side = calloc(1, area + 8),
                                                      .range = calloc(1, area + 8)};

    CV_TRY_MEMORY(sides.side && sides.range, error, "finding text lines");
    CV_TRY(cv_sides_update(frame, &sides, 0, frame->height, error));
    *ret_sides = sides;
    sides = (struct cv_sides){0};
    return 0;
}

/* The mean level of the pixels of some rows that are on a side, or, without `is_on`, that are not. */
static int mean_level(const struct cv_frame *frame, const struct cv_sides *sides,
                      const struct cv_box *rows, uint8_t side, bool is_on, enum cv_plane plane)
{
    struct cv_box inside = cv_box_clip(rows, frame->width, frame->height);
    int64_t sum = 0, total = 0;

    for (int y = inside.y; y < cv_box_bottom(&inside); y++) {
        size_t row = (size_t)y * (size_t)frame->width;
        for (int x = inside.x; x < cv_box_right(&inside); x++) {
            bool is_wanted = (sides->side[row + (size_t)x] == side) == is_on;
            sum += is_wanted ? frame->plane[plane][row + (size_t)x] : 0;
            total += is_wanted;
        }
    }
    return (int)(sum / (total ? total : 1));
}

bool cv_is_filling(const struct cv_frame *frame, const struct cv_sides *sides,
                   const struct cv_box *box, uint8_t side)
{
    struct cv_box above = {box->x, box->y - 1, box->width, 1};
    struct cv_box below = {box->x, cv_box_bottom(box), box->width, 1};
    int64_t alike = 0, most_above = 0, most_below = 0;

    for (int plane = 0; plane < CV_PLANES; plane++) {
        int level = mean_level(frame, sides, box, side, true, plane);
        int64_t up = mean_level(frame, sides, &above, side, false, plane) - level;
        int64_t down = mean_level(frame, sides, &below, side, false, plane) - level;
        alike += up * down;
        most_above += up * up;
        most_below += down * down;
    }
    return alike * 100 < (most_above > most_below ? most_above : most_below) * STROKE_MIN;
}
