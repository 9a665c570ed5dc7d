#include "workers/sample/gate.h"

#include <string.h>

enum {
    /* Measured on rendered text at CRF 18 to 32: the worst block of an unchanged picture after a
     * key frame reaches 850; a changed digit of 16 px makes 1,150 and more. */
    THRESHOLD_LOW = 400,
    THRESHOLD_HIGH = 1000,
    ACTIVE_SAD = 64,    /* below, a block is still: rounding, a skipped macroblock */
    ACTIVE_ENOUGH = 64, /* blocks; fewer say nothing about the noise */
    HISTOGRAM_SHIFT = 4,
    HISTOGRAM_BINS = 16320 / (1 << HISTOGRAM_SHIFT) + 1,
};

int gate_init(struct gate *gate, int width, int height, double dedupe_threshold,
              struct cv_error *error)
{
    gate->columns = (width + GATE_BLOCK - 1) / GATE_BLOCK;
    gate->rows = (height + GATE_BLOCK - 1) / GATE_BLOCK;
    double scale = (1 - dedupe_threshold) / 0.05;
    gate->scale = scale < 0.02 ? 0.02 : scale; /* even "identical" leaves the decoder's rounding */
    size_t count = (size_t)gate->columns * (size_t)gate->rows;
    gate->sad = calloc(count + 1, sizeof(*gate->sad)); /* pairs of blocks are written at once */
    gate->changed = calloc(count, 1);
    if (!gate->sad || !gate->changed) {
        gate_deinit(gate);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %zu blocks", count);
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

/* SAD of the blocks of one block row, `rows` pixel rows `step` apart. */
static void sad_row(const struct plane *a, const struct plane *b, int y, int rows, int step,
                    uint16_t *sad)
{
    int x = 0;
#if defined(__SSE2__)
    for (; x + 16 <= a->width; x += 16) {
        __m128i sum = _mm_setzero_si128();
        for (int row = 0; row < rows; row += step) {
            __m128i left = _mm_loadu_si128((const __m128i *)plane_at(a, x, y + row));
            __m128i right = _mm_loadu_si128((const __m128i *)plane_at(b, x, y + row));
            sum = _mm_add_epi32(sum, _mm_sad_epu8(left, right));
        }
        sad[x / GATE_BLOCK] = (uint16_t)_mm_cvtsi128_si32(sum);
        sad[x / GATE_BLOCK + 1] = (uint16_t)_mm_extract_epi16(sum, 4);
    }
#endif
    for (; x < a->width; x += GATE_BLOCK) {
        int count = a->width - x < GATE_BLOCK ? a->width - x : GATE_BLOCK;
        uint32_t sum = 0;
        for (int row = 0; row < rows; row += step) {
            sum += bytes_sum(plane_at(a, x, y + row), plane_at(b, x, y + row), count);
        }
        sad[x / GATE_BLOCK] = (uint16_t)sum;
    }
}

/* The noise between two pictures, and from it the SAD that is more than noise. */
static int learn_threshold(const uint32_t *histogram, int active, double scale)
{
    double threshold = THRESHOLD_LOW;
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
    if (threshold < THRESHOLD_LOW) {
        threshold = THRESHOLD_LOW;
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

/* How much the edges of a block differ: the variation of the difference along its rows. */
static int edge_difference(const struct plane *a, const struct plane *b, int x, int y)
{
    int width = a->width - x < GATE_BLOCK ? a->width - x : GATE_BLOCK;
    int height = a->height - y < GATE_BLOCK ? a->height - y : GATE_BLOCK;
    int sum = 0;
    for (int row = 0; row < height; row++) {
        const uint8_t *left = plane_at(a, x, y + row);
        const uint8_t *right = plane_at(b, x, y + row);
        int before = left[0] - right[0];
        for (int i = 1; i < width; i++) {
            int here = left[i] - right[i];
            sum += abs(here - before);
            before = here;
        }
    }
    return sum;
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
    size_t index = 0;
    for (int row = 0; row < gate->rows; row++) {
        for (int column = 0; column < gate->columns; column++, index++) {
            if (gate->sad[index] <= result->threshold ||
                !stands_out(gate, column, row, result->threshold)) {
                continue;
            }
            int edges = edge_difference(reference, current, column * GATE_BLOCK, row * GATE_BLOCK);
            /* a cut block at the picture's edge may have no pixel beside another */
            bool narrow = current->width - column * GATE_BLOCK < 2;
            if (2 * edges < result->threshold && !narrow) {
                result->shifted++;
                continue;
            }
            gate->changed[index] = 1;
            result->changed++;
            result->left = column < result->left ? column : result->left;
            result->right = column >= result->right ? column + 1 : result->right;
            result->top = row < result->top ? row : result->top;
            result->bottom = row + 1;
        }
    }
}

void gate_compare(struct gate *gate, const struct plane *reference, const struct plane *current,
                  struct gate_result *ret_result)
{
    uint32_t histogram[HISTOGRAM_BINS] = {0};
    int active = 0;
    int peak = 0;
    for (int row = 0; row < gate->rows; row++) {
        int y = row * GATE_BLOCK;
        int height = current->height - y < GATE_BLOCK ? current->height - y : GATE_BLOCK;
        uint16_t *sad = gate->sad + (size_t)row * (size_t)gate->columns;
        sad_row(reference, current, y, height, 1, sad);
        int row_peak = 0;
        for (int i = 0; i < gate->columns; i++) {
            row_peak = sad[i] > row_peak ? sad[i] : row_peak;
        }
        if (row_peak > ACTIVE_SAD) {
            active += count_noise(sad, gate->columns, histogram);
        }
        peak = row_peak > peak ? row_peak : peak;
    }
    struct gate_result result = {.left = gate->columns, .top = gate->rows};
    result.threshold = learn_threshold(histogram, active, gate->scale);
    memset(gate->changed, 0, (size_t)gate->columns * (size_t)gate->rows);
    if (peak > result.threshold) {
        mark_changed(gate, reference, current, &result);
    }
    *ret_result = result;
}

bool gate_chroma_changed(const struct gate *gate, const struct plane *reference,
                         const struct plane *current)
{
    uint32_t histogram[HISTOGRAM_BINS] = {0};
    uint16_t sad[2048 + 2]; /* CV_MEDIA_SIDE_MAX / GATE_BLOCK */
    int columns = (current->width + GATE_BLOCK - 1) / GATE_BLOCK;
    int active = 0;
    int peak = 0;
    for (int y = 0; y < current->height; y += GATE_BLOCK) {
        int height = current->height - y < GATE_BLOCK ? current->height - y : GATE_BLOCK;
        sad_row(reference, current, y, height, 2, sad);
        for (int i = 0; i < columns; i++) {
            sad[i] = (uint16_t)(2 * sad[i]);
            peak = sad[i] > peak ? sad[i] : peak;
        }
        active += count_noise(sad, columns, histogram);
    }
    return peak > learn_threshold(histogram, active, gate->scale);
}
