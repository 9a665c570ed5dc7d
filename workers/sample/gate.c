#include "workers/sample/gate.h"

#include "common/media/media.h"

#include <string.h>

enum {
    /* Measured on rendered text at CRF 18 to 32: the worst block of an unchanged picture after a
     * key frame reaches 1,050; a changed digit of 16 px makes 1,150 and more, of 11 px 500. From
     * CRF 29 on x264 may draw one block of a still picture anew by 550 to 900, which is kept: no
     * bound tells it from a faint digit of 7 px (650 to 760, in one block). */
    THRESHOLD_LOW = 520,
    THRESHOLD_HIGH = 1300,
    ACTIVE_SAD = 64,               /* below, a block is still: rounding, a skipped macroblock */
    ACTIVE_ENOUGH = 64,            /* blocks; fewer say nothing about the noise */
    OTHER_SAD = 1000,              /* without strokes, less is of no interest */
    QUIET_SAD = THRESHOLD_LOW / 4, /* of every other row: no more than noise */
    CERTAIN_SAD = 2 * THRESHOLD_HIGH,
    TEXT_CERTAIN = 256, /* changed blocks, after which the rest is not looked at so closely */
    COLUMNS_MAX = CV_MEDIA_SIDE_MAX / GATE_BLOCK,
    SPOTS_MAX = 64,   /* changed blocks; more are never discounted: a short line has that many */
    SPOTS_LEFT = 6,   /* a digit makes more, even beside a moving picture */
    SURROUNDED = 3,   /* of the eight neighbours */
    LARGE_SHARE = 16, /* 1/16 of the blocks: a camera in a hand moves a tenth */
    LUMA_STEP = 2,    /* every so many rows are read first */
    CHROMA_STEP = 4,
    HISTOGRAM_SHIFT = 4,
    HISTOGRAM_BINS = 16320 / (1 << HISTOGRAM_SHIFT) + 1,
};

/* ---- strokes: writing consists of them, edges between two surfaces do not ---------------------- */

enum {
    STROKE_PIXELS = 5,       /* of a block that are a stroke in one picture alone */
    STROKE_PIXELS_FAINT = 8, /* the same where the difference is within reach of an encoder */
    FAINT_SAD = 900,
};

/* A pixel belongs to a stroke when it is brighter, or darker, than both neighbours at one of two
 * distances. An edge between two surfaces is no stroke, however sharp it is. */
enum { STROKE_THIN = 3, STROKE_WIDE = 8, STROKE_CONTRAST = 20 };

/* 8 pixels of one picture, and beside them the 8 at the same place of the other. */
static __m128i load_both(const uint8_t *a, const uint8_t *b)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)a),
                              _mm_loadl_epi64((const __m128i *)b));
}

/* In how many of the 8 pixels the one picture has a stroke that the other has not. */
static int strokes_differing(const uint8_t *a, const uint8_t *b)
{
    __m128i here = load_both(a, b);
    __m128i ridge = _mm_setzero_si128();
    __m128i valley = ridge;
    static const int distances[] = {STROKE_THIN, STROKE_WIDE};
    for (size_t i = 0; i < CV_COUNT(distances); i++) {
        __m128i left = load_both(a - distances[i], b - distances[i]);
        __m128i right = load_both(a + distances[i], b + distances[i]);
        __m128i above = _mm_min_epu8(_mm_subs_epu8(here, left), _mm_subs_epu8(here, right));
        __m128i below = _mm_min_epu8(_mm_subs_epu8(left, here), _mm_subs_epu8(right, here));
        ridge = _mm_max_epu8(ridge, above);
        valley = _mm_max_epu8(valley, below);
    }
    __m128i contrast = _mm_set1_epi8(STROKE_CONTRAST);
    __m128i zero = _mm_setzero_si128();
    __m128i no_ridge = _mm_cmpeq_epi8(_mm_subs_epu8(ridge, contrast), zero);
    __m128i no_valley = _mm_cmpeq_epi8(_mm_subs_epu8(valley, contrast), zero);
    __m128i of_a = _mm_unpacklo_epi64(no_ridge, no_valley);
    __m128i of_b = _mm_unpackhi_epi64(no_ridge, no_valley);
    /* a byte that differs is 255 in one and 0 in the other */
    __m128i ones = _mm_and_si128(_mm_xor_si128(of_a, of_b), _mm_set1_epi8(1));
    __m128i sum = _mm_sad_epu8(ones, zero);
    return _mm_cvtsi128_si32(sum) + _mm_extract_epi16(sum, 4);
}

/* Whether strokes have come, gone or moved in the block of GATE_BLOCK pixels at x, y, which differs by
 * `sad`. True in a picture that is too narrow to look for strokes. */
static bool strokes_differ(const struct plane *a, const struct plane *b, int x, int y, int sad)
{
    int height = a->height - y < GATE_BLOCK ? a->height - y : GATE_BLOCK;
    /* at the rim, look at the nearest pixels that have neighbours */
    int low = STROKE_WIDE;
    int high = a->width - GATE_BLOCK - STROKE_WIDE;
    if (high < low) {
        return true;
    }
    x = x < low ? low : x > high ? high : x;
    int enough = sad < FAINT_SAD ? STROKE_PIXELS_FAINT : STROKE_PIXELS;
    int differing = 0;
    for (int row = 0; row < height && differing < enough; row++) {
        differing += strokes_differing(plane_at(a, x, y + row), plane_at(b, x, y + row));
    }
    return differing >= enough;
}

/* ---- blocks ------------------------------------------------------------------------------------ */

/* Values of gate->changed. */
enum { STILL = 0, TEXT = 1, OTHER = 2 };

int gate_init(struct gate *gate, int width, int height, double dedupe_threshold,
              struct cv_error *error)
{
    gate->phase = 0;
    gate->columns = (width + GATE_BLOCK - 1) / GATE_BLOCK;
    gate->rows = (height + GATE_BLOCK - 1) / GATE_BLOCK;
    double scale = (1 - dedupe_threshold) / 0.05;
    gate->scale = scale < 0.02 ? 0.02 : scale; /* even "identical" leaves the decoder's rounding */
    gate->quiet = (int)(QUIET_SAD * (gate->scale < 1 ? gate->scale : 1));
    size_t count = (size_t)gate->columns * (size_t)gate->rows;
    gate->sad = calloc(count + 1, sizeof(*gate->sad)); /* pairs of blocks are written at once */
    gate->changed = calloc(count, 1);
    if (!gate->sad || !gate->changed) {
        gate_deinit(gate);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for %zu blocks", count);
    }
    return 0;
}

void gate_deinit(struct gate *gate)
{
    free(gate->sad);
    free(gate->changed);
    gate->sad = NULL;
    gate->changed = NULL;
}

enum {
    PAIR = 2 * GATE_BLOCK, /* pixels of one load */
    PAIRS = 4,             /* side by side, so that a cache line is fetched once */
};

/* Rows of blocks to compare, and how far from them lies what is compared next. */
struct stripe {
    const uint8_t *data;
    ptrdiff_t stride, next;
};

static struct stripe stripe_at(const struct plane *plane, int y, int step)
{
    bool last = y + 2 * GATE_BLOCK > plane->height;
    return (struct stripe){plane_at(plane, 0, y), (ptrdiff_t)plane->stride * step,
                           last ? 0 : (ptrdiff_t)plane->stride * GATE_BLOCK};
}

/* SAD of `pairs` pairs of blocks side by side, `x` pixels into the rows. */
static inline void sad_pairs(const struct stripe *a, const struct stripe *b, int x, int rows,
                             int pairs, uint16_t *sad)
{
    const uint8_t *left_row = a->data + x, *right_row = b->data + x;
    __m128i sum[PAIRS];
    for (int i = 0; i < pairs; i++) {
        sum[i] = _mm_setzero_si128();
    }
    for (int row = 0; row < rows; row++, left_row += a->stride, right_row += b->stride) {
        /* rows are too far apart for processors to guess: a third of the time is waiting for them */
        __builtin_prefetch(left_row + a->next);
        __builtin_prefetch(right_row + b->next);
        for (int i = 0; i < pairs; i++) {
            __m128i left = _mm_loadu_si128((const __m128i *)(left_row + (ptrdiff_t)i * PAIR));
            __m128i right = _mm_loadu_si128((const __m128i *)(right_row + (ptrdiff_t)i * PAIR));
            sum[i] = _mm_add_epi32(sum[i], _mm_sad_epu8(left, right));
        }
    }
    for (int i = 0; i < pairs; i++) {
        sad[2 * i] = (uint16_t)_mm_cvtsi128_si32(sum[i]);
        sad[2 * i + 1] = (uint16_t)_mm_extract_epi16(sum[i], 4);
    }
}

/* SAD of the blocks of the block row at `y`, from every `step`-th of its rows, from `first` on. */
static void sad_rows(const struct plane *a, const struct plane *b, int y, int first, int step,
                     uint16_t *sad)
{
    int height = a->height - y < GATE_BLOCK ? a->height - y : GATE_BLOCK;
    int rows = first < height ? (height - first + step - 1) / step : 0;
    int x = 0;
    y += first;
    struct stripe left = stripe_at(a, y, step), right = stripe_at(b, y, step);
    for (; x + PAIRS * PAIR <= a->width; x += PAIRS * PAIR) {
        sad_pairs(&left, &right, x, rows, PAIRS, sad + x / GATE_BLOCK);
    }
    for (; x + PAIR <= a->width; x += PAIR) {
        sad_pairs(&left, &right, x, rows, 1, sad + x / GATE_BLOCK);
    }
    for (; x < a->width; x += GATE_BLOCK) {
        int count = a->width - x < GATE_BLOCK ? a->width - x : GATE_BLOCK;
        uint32_t sum = 0;
        for (int row = 0; row < rows; row++) {
            sum += bytes_sum(plane_at(a, x, y + row * step), plane_at(b, x, y + row * step), count);
        }
        sad[x / GATE_BLOCK] = (uint16_t)sum;
    }
}

static int peak_of(const uint16_t *sad, int count)
{
    uint16_t peak = 0;
    for (int i = 0; i < count; i++) {
        peak = sad[i] > peak ? sad[i] : peak;
    }
    return peak;
}

static int count_above(const uint16_t *sad, int count, int limit)
{
    int above = 0;
    for (int i = 0; i < count; i++) {
        above += sad[i] > limit;
    }
    return above;
}

/* SAD of a block row as far as it is needed. Memory is what a comparison costs, so every `step`-th row is read first:
 * where that shows nothing, nothing has changed but for a line one pixel thin, which the other rows of the next picture
 * show; where the picture is `certain` to have changed, the estimate is good enough. Else as many more rows are read.
 * Returns the peak. */
static int sad_row(const struct gate *gate, const struct plane *a, const struct plane *b, int y,
                   int step, bool certain, uint16_t *sad)
{
    int columns = (a->width + GATE_BLOCK - 1) / GATE_BLOCK,
        phase = (int)(gate->phase % (unsigned)step);
    sad_rows(a, b, y, phase, step, sad);
    int peak = peak_of(sad, columns);
    int times = step;
    if (!certain && peak * step / 2 > gate->quiet) {
        uint16_t other[COLUMNS_MAX + 2];
        sad_rows(a, b, y, (phase + step / 2) % step, step, other);
        for (int i = 0; i < columns; i++) {
            sad[i] = (uint16_t)(sad[i] + other[i]);
        }
        times = step / 2;
    }
    for (int i = 0; i < columns; i++) {
        sad[i] = (uint16_t)(times * sad[i]);
    }
    return peak_of(sad, columns);
}

/* The noise between two pictures, and from it the SAD that is more than noise. */
static int learn_threshold(const uint32_t *histogram, int active, int low, double scale)
{
    double threshold = low;
    if (active >= ACTIVE_ENOUGH) {
        int left = active / 50; /* the top 2 % may be new text */
        int bin = HISTOGRAM_BINS - 1;
        while (bin > 0 && (int)histogram[bin] <= left) {
            left -= (int)histogram[bin];
            bin--;
        }
        /* the worst block stays below 1.4 × that quantile + 200 in every rendering measured */
        threshold = 1.4 * (bin << HISTOGRAM_SHIFT) + 200;
    }
    if (threshold < low) {
        threshold = low;
    } else if (threshold > THRESHOLD_HIGH) {
        threshold = THRESHOLD_HIGH;
    }
    threshold *= scale;
    return threshold < 1 ? 1 : threshold > UINT16_MAX ? UINT16_MAX : (int)threshold;
}

static int count_noise(const uint16_t *sad, int count, uint32_t *histogram)
{
    int active = 0;
    for (int i = 0; i < count; i++) {
        if (sad[i] > ACTIVE_SAD) {
            histogram[sad[i] >> HISTOGRAM_SHIFT]++;
            active++;
        }
    }
    return active;
}

/* A lone block just above the threshold is noise; text leaves its mark on a neighbour too. */
static bool stands_out(const struct gate *gate, int column, int row, int threshold)
{
    const uint16_t *sad = gate->sad + (size_t)row * (size_t)gate->columns + column;
    if (2 * sad[0] > 3 * threshold) {
        return true;
    }
    int half = threshold / 2;
    ptrdiff_t below = gate->columns;
    return (column > 0 && sad[-1] > half) || (column + 1 < gate->columns && sad[1] > half) ||
           (row > 0 && sad[-below] > half) || (row + 1 < gate->rows && sad[below] > half);
}

static void mark_changed(struct gate *gate, const struct plane *reference,
                         const struct plane *current, struct gate_result *result)
{
    int other = (int)(OTHER_SAD * gate->scale);
    size_t index = 0;
    for (int row = 0; row < gate->rows; row++) {
        for (int column = 0; column < gate->columns; column++, index++) {
            if (gate->sad[index] <= result->threshold ||
                !stands_out(gate, column, row, result->threshold)) {
                continue;
            }
            if (result->changed < TEXT_CERTAIN &&
                !strokes_differ(reference, current, column * GATE_BLOCK, row * GATE_BLOCK,
                                gate->sad[index])) {
                if (gate->sad[index] > other) {
                    gate->changed[index] = OTHER;
                    result->shifted++;
                }
                continue;
            }
            gate->changed[index] = TEXT;
            result->changed++;
            result->left = column < result->left ? column : result->left;
            result->right = column >= result->right ? column + 1 : result->right;
            result->top = row < result->top ? row : result->top;
            result->bottom = row + 1;
        }
    }
}

/* Whether the block is inside of something that moves, or, beside a large moving picture, the only one that looks like text:
 * most digits cover several. */
static bool is_spot(const struct gate *gate, int column, int row, bool is_large)
{
    int others = 0, texts = 0;
    for (int y = row > 0 ? row - 1 : 0; y <= row + 1 && y < gate->rows; y++) {
        for (int x = column > 0 ? column - 1 : 0; x <= column + 1 && x < gate->columns; x++) {
            uint8_t changed = gate->changed[(size_t)y * (size_t)gate->columns + (size_t)x];
            others += changed == OTHER;
            texts += changed == TEXT;
        }
    }
    return others >= SURROUNDED || (is_large && texts == 1);
}

/* A moving picture has spots that look like a stroke; a few of those inside it are no text. */
static void discount_spots(struct gate *gate, struct gate_result *result)
{
    bool is_large = result->shifted >= gate->columns * gate->rows / LARGE_SHARE;
    for (int row = result->top; row < result->bottom; row++) {
        uint8_t *changed = gate->changed + (size_t)row * (size_t)gate->columns;
        for (int column = result->left; column < result->right; column++) {
            if (changed[column] == TEXT && is_spot(gate, column, row, is_large)) {
                result->changed--;
                result->shifted++;
            }
        }
    }
}

void gate_compare(struct gate *gate, const struct plane *reference, const struct plane *current,
                  enum gate_view view, struct gate_result *ret_result)
{
    uint32_t histogram[HISTOGRAM_BINS] = {0};
    int active = 0;
    int peak = 0;
    int certain = 0;
    for (int row = 0; row < gate->rows; row++) {
        uint16_t *sad = gate->sad + (size_t)row * (size_t)gate->columns;
        int row_peak = sad_row(gate, reference, current, row * GATE_BLOCK, LUMA_STEP,
                               certain >= TEXT_CERTAIN, sad);
        if (row_peak > ACTIVE_SAD) {
            active += count_noise(sad, gate->columns, histogram);
        }
        if (row_peak > CERTAIN_SAD && certain < TEXT_CERTAIN) {
            certain += count_above(sad, gate->columns, CERTAIN_SAD);
        }
        peak = row_peak > peak ? row_peak : peak;
    }
    struct gate_result result = {.left = gate->columns, .top = gate->rows};
    result.threshold = learn_threshold(
        histogram, active, view == GATE_FINE ? THRESHOLD_LOW : THRESHOLD_HIGH, gate->scale);
    memset(gate->changed, STILL, (size_t)gate->columns * (size_t)gate->rows);
    if (peak > result.threshold) {
        mark_changed(gate, reference, current, &result);
        if (result.changed < SPOTS_MAX && result.shifted >= 3 * result.changed) {
            discount_spots(gate, &result);
            if (result.changed < SPOTS_LEFT && result.shifted >= 16 * result.changed) {
                result.changed = 0;
            }
        }
    }
    *ret_result = result;
}

bool gate_chroma_changed(const struct gate *gate, const struct plane *reference,
                         const struct plane *current, enum gate_view view)
{
    uint32_t histogram[HISTOGRAM_BINS] = {0};
    uint16_t sad[COLUMNS_MAX + 2];
    uint16_t peak[COLUMNS_MAX]; /* of a block row */
    int columns = (current->width + GATE_BLOCK - 1) / GATE_BLOCK;
    int active = 0;
    int highest = 0;
    for (int y = 0; y < current->height; y += GATE_BLOCK) {
        int row_peak = sad_row(gate, reference, current, y, CHROMA_STEP, false, sad);
        peak[y / GATE_BLOCK] = (uint16_t)row_peak;
        highest = row_peak > highest ? row_peak : highest;
        if (row_peak > ACTIVE_SAD) {
            active += count_noise(sad, columns, histogram);
        }
    }
    int low = view == GATE_FINE ? THRESHOLD_LOW : THRESHOLD_HIGH;
    int threshold = learn_threshold(histogram, active, low, gate->scale);
    if (highest <= threshold) {
        return false;
    }
    for (int y = 0; y < current->height; y += GATE_BLOCK) {
        if (peak[y / GATE_BLOCK] <= threshold) {
            continue;
        }
        (void)sad_row(gate, reference, current, y, CHROMA_STEP, false, sad);
        for (int i = 0; i < columns; i++) {
            if (sad[i] > threshold &&
                strokes_differ(reference, current, i * GATE_BLOCK, y, sad[i])) {
                return true;
            }
        }
    }
    return false;
}
