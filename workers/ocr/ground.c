#include "workers/ocr/ground.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    FAINT_MIN = 22,  /* levels over two pixels: ghosts that a codec leaves of what was there before
                        stay below */
    FAINT_MAX = 80,  /* an edge above is strong, and rings */
    NOISE_TIMES = 8, /* as many times the quieter quarter's gradient: white noise peaks at 5.3 */
    AROUND = 2,      /* blocks around one in which its noise is measured */
    SHARE = 4,       /* the quieter quarter of a block, and of the blocks around */
};

int ocr_ground_init(struct ocr_ground *ground, const struct ocr_frame *frame,
                    struct cv_error *error)
{
    int columns = (frame->width + OCR_GROUND_BLOCK - 1) / OCR_GROUND_BLOCK;
    int rows = (frame->height + OCR_GROUND_BLOCK - 1) / OCR_GROUND_BLOCK;
    size_t count = (size_t)columns * (size_t)rows;
    uint8_t *peaks = calloc(2, count);

    if (!peaks) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to find text lines");
    }
    *ground = (struct ocr_ground){columns, rows, peaks, peaks + count};
    return 0;
}

void ocr_ground_deinit(struct ocr_ground *ground)
{
    free(ground->peaks);
    *ground = (struct ocr_ground){0};
}

void ocr_ground_note(struct ocr_ground *ground, const uint8_t *edges, int width, int y)
{
    uint8_t *peaks = ground->peaks + (size_t)(y / OCR_GROUND_BLOCK) * (size_t)ground->columns;
    int x = 0;

#if defined(__SSE2__)
    for (; x + OCR_GROUND_BLOCK <= width; x += OCR_GROUND_BLOCK) {
        __m128i most = _mm_loadu_si128((const __m128i *)(const void *)(edges + x));
        most = _mm_max_epu8(most, _mm_srli_si128(most, 8));
        most = _mm_max_epu8(most, _mm_srli_si128(most, 4));
        most = _mm_max_epu8(most, _mm_srli_si128(most, 2));
        most = _mm_max_epu8(most, _mm_srli_si128(most, 1));
        uint8_t peak = (uint8_t)_mm_cvtsi128_si32(most);
        uint8_t *here = &peaks[x / OCR_GROUND_BLOCK];
        *here = peak > *here ? peak : *here;
    }
#endif
    for (; x < width; x++) {
        uint8_t *here = &peaks[x / OCR_GROUND_BLOCK];
        *here = edges[x] > *here ? edges[x] : *here;
    }
}

/* The first and the last of the blocks around one, along one axis. */
static int from_block(int block, int reach)
{
    return ocr_max(block - reach, 0);
}

static int to_block(int block, int reach, int count)
{
    return ocr_min(block + reach, count - 1);
}

static bool is_quiet(const struct ocr_ground *ground, int column, int row)
{
    for (int y = from_block(row, 1); y <= to_block(row, 1, ground->rows); y++) {
        for (int x = from_block(column, 1); x <= to_block(column, 1, ground->columns); x++) {
            if (ground->peaks[y * ground->columns + x] > FAINT_MAX) {
                return false;
            }
        }
    }
    return true;
}

/* The gradient that a quarter of the pixels of each block of a row of blocks stays at or below. */
static void quiet_quarters(const struct ocr_frame *frame, int row, int columns,
                           uint32_t (*counts)[256], uint8_t *edges, uint8_t *quarters)
{
    int top = row * OCR_GROUND_BLOCK, bottom = ocr_min(top + OCR_GROUND_BLOCK, frame->height);

    memset(counts, 0, (size_t)columns * sizeof(*counts));
    for (int y = top; y < bottom; y++) {
        ocr_gradient_row(frame, y, edges);
        for (int x = 0; x < frame->width; x++) {
            counts[x / OCR_GROUND_BLOCK][edges[x]]++;
        }
    }
    for (int i = 0; i < columns; i++) {
        int width = ocr_min(OCR_GROUND_BLOCK, frame->width - i * OCR_GROUND_BLOCK);
        uint32_t wanted = (uint32_t)(width * (bottom - top)) / SHARE, seen = 0;
        int level = 0;
        while (level < 255 && (seen += counts[i][level]) <= wanted) {
            level++;
        }
        quarters[i] = (uint8_t)level;
    }
}

/* The same of the blocks around one. */
static int noise_around(const struct ocr_ground *ground, const uint8_t *quarters, int column,
                        int row)
{
    int levels[256] = {0}, count = 0, level = 0, seen = 0;

    for (int y = from_block(row, AROUND); y <= to_block(row, AROUND, ground->rows); y++) {
        for (int x = from_block(column, AROUND); x <= to_block(column, AROUND, ground->columns);
             x++) {
            levels[quarters[y * ground->columns + x]]++;
            count++;
        }
    }
    while (level < 255 && (seen += levels[level]) <= count / SHARE) {
        level++;
    }
    return level;
}

/* Which rows of blocks have edges that may be faint letters, or lie so near that their noise counts. */
static bool wanted_rows(const struct ocr_ground *ground, bool *wanted)
{
    bool any = false;

    for (int y = 0; y < ground->rows; y++) {
        for (int x = 0; x < ground->columns; x++) {
            if (ground->peaks[y * ground->columns + x] < FAINT_MIN || !is_quiet(ground, x, y)) {
                continue;
            }
            any = true;
            for (int k = from_block(y, AROUND); k <= to_block(y, AROUND, ground->rows); k++) {
                wanted[k] = true;
            }
            break;
        }
    }
    return any;
}

int ocr_ground_learn(struct ocr_ground *ground, const struct ocr_frame *frame, bool *ret_any,
                     struct cv_error *error)
{
    size_t columns = (size_t)ground->columns, rows = (size_t)ground->rows;
    cv_auto_free bool *wanted = calloc(rows, sizeof(*wanted));
    cv_auto_free uint8_t *quarters = malloc(columns * rows);
    cv_auto_free uint32_t(*counts)[256] = malloc(columns * sizeof(*counts));
    cv_auto_free uint8_t *edges = malloc((size_t)frame->width + OCR_GROUND_BLOCK);

    if (!wanted || !quarters || !counts || !edges) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to find text lines");
    }
    *ret_any = wanted_rows(ground, wanted);
    memset(quarters, UINT8_MAX, columns * rows);
    for (int y = 0; *ret_any && y < ground->rows; y++) {
        if (wanted[y]) {
            quiet_quarters(frame, y, ground->columns, counts, edges,
                           quarters + (size_t)y * columns);
        }
    }
    for (int y = 0; *ret_any && y < ground->rows; y++) {
        for (int x = 0; wanted[y] && x < ground->columns; x++) {
            if (is_quiet(ground, x, y)) {
                int strong = NOISE_TIMES * noise_around(ground, quarters, x, y);
                ground->strong[(size_t)y * columns + (size_t)x] =
                    (uint8_t)(strong < OCR_EDGE_STRONG ? ocr_max(strong, FAINT_MIN) : 0);
            }
        }
    }
    return 0;
}

bool ocr_ground_any(const struct ocr_ground *ground, int y)
{
    const uint8_t *strong =
        ground->strong + (size_t)(y / OCR_GROUND_BLOCK) * (size_t)ground->columns;

    for (int i = 0; i < ground->columns; i++) {
        if (strong[i]) {
            return true;
        }
    }
    return false;
}

void ocr_ground_lift(const struct ocr_ground *ground, uint8_t *edges, int width, int y)
{
    const uint8_t *strong =
        ground->strong + (size_t)(y / OCR_GROUND_BLOCK) * (size_t)ground->columns;

    for (int i = 0; i < ground->columns; i++) {
        int from = i * OCR_GROUND_BLOCK, to = ocr_min(from + OCR_GROUND_BLOCK, width);
        if (!strong[i]) {
            memset(edges + from, 0, (size_t)(to - from));
            continue;
        }
        for (int x = from; x < to; x++) {
            edges[x] = (uint8_t)ocr_min(edges[x] * OCR_EDGE_STRONG / strong[i], UINT8_MAX);
        }
    }
}

bool ocr_ground_holds(const struct ocr_ground *ground, const struct ocr_line *line)
{
    int left = ocr_max(line->box.x - line->tall / 2, 0) / OCR_GROUND_BLOCK;
    int right =
        ocr_min((ocr_right(&line->box) + line->tall / 2) / OCR_GROUND_BLOCK, ground->columns - 1);
    int bottom = ocr_min((ocr_bottom(&line->box) - 1) / OCR_GROUND_BLOCK, ground->rows - 1);

    for (int y = line->box.y / OCR_GROUND_BLOCK; y <= bottom; y++) {
        for (int x = left; x <= right; x++) {
            if (!ground->strong[y * ground->columns + x]) {
                return false;
            }
        }
    }
    return true;
}
