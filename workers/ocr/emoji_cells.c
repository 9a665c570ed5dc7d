#include "workers/ocr/emoji_cells.h"

enum {
    POINTS = 2, /* samples a side of a cell: a cell is one to four pixels */
    SIDE_MAX = OCR_EMOJI_FINE,
    PLACES_MAX = POINTS * SIDE_MAX,
};

/* The bound is computed in another order than the distance; this is far above the rounding of both. */
static const double ROUNDING = 0.999;

/* A sample's place on one axis: between pixel `first` and the next one. */
struct place {
    int first;
    double share; /* of the next one */
};

static void find_places(double start, double length, int pixels, int count, struct place *places)
{
    double step = length / count;

    for (int i = 0; i < count; i++) {
        double at = start - 0.5 + (i + 0.5) * step;
        at = at < 0 ? 0 : at > pixels - 1.001 ? pixels - 1.001 : at;
        places[i].first = (int)at;
        places[i].share = at - places[i].first;
    }
}

/* One row of the frame at the places of the columns; the first and the second samples of the cells
 * apart, so that sums over a cell are sums of arrays. */
struct row {
    int y; /* -1: empty */
    double at[POINTS][SIDE_MAX * 3];
};

static void take_row(const struct ocr_frame *frame, int y, const struct place *columns, int side,
                     struct row *row)
{
    for (int c = 0; c < 3; c++) {
        const uint8_t *pixels = frame->plane[c] + (size_t)y * (size_t)frame->width;
        for (int i = 0; i < side * POINTS; i++) {
            const uint8_t *at = pixels + columns[i].first;
            row->at[i % POINTS][i / POINTS * 3 + c] = at[0] + columns[i].share * (at[1] - at[0]);
        }
    }
    row->y = y;
}

/* Rows are visited downwards, and each is wanted for several samples. */
static const struct row *find_row(const struct ocr_frame *frame, int y, const struct place *columns,
                                  int side, struct row rows[2])
{
    struct row *row = &rows[y % 2];

    if (row->y != y) {
        take_row(frame, y, columns, side, row);
    }
    return row;
}

void ocr_cells_take(const struct ocr_frame *frame, const struct ocr_placing *placing, int side,
                    float *ret_cells)
{
    struct place columns[PLACES_MAX], lines[PLACES_MAX];
    struct row rows[2] = {{.y = -1}, {.y = -1}};

    find_places(placing->x, placing->width, frame->width, side * POINTS, columns);
    find_places(placing->y, placing->height, frame->height, side * POINTS, lines);
    for (int line = 0; line < side; line++, ret_cells += (ptrdiff_t)side * 3) {
        double sums[SIDE_MAX * 3] = {0};
        for (int i = 0; i < POINTS; i++) {
            const struct place *place = &lines[line * POINTS + i];
            const struct row *upper = find_row(frame, place->first, columns, side, rows);
            const struct row *lower = find_row(frame, place->first + 1, columns, side, rows);
            double share = place->share;
            for (int k = 0; k < side * 3; k++) {
                double first = upper->at[0][k] + share * (lower->at[0][k] - upper->at[0][k]);
                double second = upper->at[1][k] + share * (lower->at[1][k] - upper->at[1][k]);
                sums[k] = sums[k] + first + second;
            }
        }
        for (int k = 0; k < side * 3; k++) {
            ret_cells[k] = (float)(sums[k] / (POINTS * POINTS));
        }
    }
}

double ocr_cells_energy(const float *cells, int count, const uint8_t paper[3])
{
    double sum = 0;

    for (int i = 0; i < count; i++) {
        for (int c = 0; c < 3; c++) {
            double away = cells[3 * i + c] - paper[c];
            sum += away * away;
        }
    }
    return sum;
}

double ocr_cells_distance(const uint8_t *emoji, const float *cells, int side,
                          const uint8_t paper[3], double enough)
{
    float sum = 0;

    for (int row = 0; row < side && sum <= enough; row++) {
        for (int i = row * side; i < (row + 1) * side; i++) {
            float bare = (float)(255 - emoji[4 * i + 3]) / 255;
            for (int c = 0; c < 3; c++) {
                float away = (float)emoji[4 * i + c] + bare * (float)paper[c] - cells[3 * i + c];
                sum += away * away;
            }
        }
    }
    return sum;
}

void ocr_cells_quarters(const float *cells, struct ocr_emoji_quarters *ret_quarters)
{
    *ret_quarters = (struct ocr_emoji_quarters){{{0}}, {0}};
    for (int i = 0; i < OCR_EMOJI_COARSE * OCR_EMOJI_COARSE; i++) {
        for (int c = 0; c < 3; c++) {
            ret_quarters->colours[c][ocr_emoji_quarter(i)] += cells[3 * i + c];
        }
    }
}

double ocr_cells_distance_least(const struct ocr_emoji_quarters *emoji,
                                const struct ocr_emoji_quarters *cells, const uint8_t paper[3])
{
    float squares[OCR_EMOJI_QUARTERS] = {0}, sum = 0;

    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < OCR_EMOJI_QUARTERS; i++) {
            float away =
                emoji->colours[c][i] + emoji->bare[i] * (float)paper[c] - cells->colours[c][i];
            squares[i] += away * away;
        }
    }
    for (int i = 0; i < OCR_EMOJI_QUARTERS; i++) {
        sum += squares[i];
    }
    return ROUNDING * sum / (OCR_EMOJI_COARSE * OCR_EMOJI_COARSE / OCR_EMOJI_QUARTERS);
}
