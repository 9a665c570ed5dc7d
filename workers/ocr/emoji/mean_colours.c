#include "workers/ocr/emoji/mean_colours.h"

#include <simde/x86/sse2.h>
#include <string.h>

enum {
    POINTS = 2, /* samples a side of a cell: a cell is one to four pixels */
    SIDE_MAX = OCR_EMOJI_FINE,
    PLACES_MAX = POINTS * SIDE_MAX,
};

/* The bound is computed in another order than the distance; this is far above the rounding of both. */
static const double ROUNDING = 0.999;

static const float SHARE = 1.0F / 255; /* of full opacity: one level */

struct paper {
    float level[4];
};

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

static void average_row(const struct cv_frame *frame, int y, const struct place *columns, int side,
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
static const struct row *find_row(const struct cv_frame *frame, int y, const struct place *columns,
                                  int side, struct row rows[2])
{
    struct row *row = &rows[y % 2];

    if (row->y != y) {
        average_row(frame, y, columns, side, row);
    }
    return row;
}

void ocr_mean_colours_measure(const struct cv_frame *frame, const struct ocr_placing *placing,
                              int side, float *ret_cells)
{
    struct place columns[PLACES_MAX] = {{0}}, lines[PLACES_MAX] = {{0}};
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
    *ret_cells = 0;
}

double ocr_mean_colours_energy(const float *cells, int count, const uint8_t paper[3])
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

/* Adds the squared differences of one cell, channel by channel: three sums that do not wait for each
 * other. Both forms compute the same numbers. */
struct sums {
    __m128 at; /* the fourth is of no meaning */
};

static inline void add_cell(struct sums *sums, const uint8_t *emoji, const float *cell,
                            const struct paper *paper)
{
    const __m128i zero = _mm_setzero_si128();
    int32_t bytes;
    memcpy(&bytes, emoji, sizeof(bytes));
    __m128i words = _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), zero);
    __m128 levels = _mm_cvtepi32_ps(_mm_unpacklo_epi16(words, zero));
    __m128 opaque = _mm_shuffle_ps(levels, levels, _MM_SHUFFLE(3, 3, 3, 3));
    __m128 bare = _mm_mul_ps(_mm_sub_ps(_mm_set1_ps(255), opaque), _mm_set1_ps(SHARE));
    __m128 seen = _mm_add_ps(levels, _mm_mul_ps(bare, _mm_loadu_ps(paper->level)));
    __m128 away = _mm_sub_ps(seen, _mm_loadu_ps(cell));
    sums->at = _mm_add_ps(sums->at, _mm_mul_ps(away, away));
}

static inline float total(const struct sums *sums)
{
    float at[4];
    _mm_storeu_ps(at, sums->at);
    return at[0] + at[1] + at[2];
}

double ocr_mean_colours_distance(const uint8_t *emoji, const float *cells, int side,
                                 const uint8_t paper[3], double enough)
{
    const struct paper levels = {{paper[0], paper[1], paper[2], 0}};
    struct sums sums = {0};
    float sum = 0;

    for (int row = 0; row < side && sum <= enough; row++) {
        for (int i = 0; i < side; i++, emoji += 4, cells += 3) {
            add_cell(&sums, emoji, cells, &levels);
        }
        sum = total(&sums);
    }
    return sum;
}

void ocr_mean_colours_quarters(const float *cells, struct ocr_emoji_quarters *ret_quarters)
{
    *ret_quarters = (struct ocr_emoji_quarters){{{0}}, {0}};
    for (int i = 0; i < OCR_COARSE_CELLS; i++) {
        for (int c = 0; c < 3; c++) {
            ret_quarters->colours[c][ocr_emoji_quarter(i)] += cells[3 * i + c];
        }
    }
}

double ocr_mean_colours_distance_least(const struct ocr_emoji_quarters *emoji,
                                       const struct ocr_emoji_quarters *cells,
                                       const uint8_t paper[3])
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
    return ROUNDING * sum * OCR_EMOJI_QUARTERS / OCR_COARSE_CELLS;
}
