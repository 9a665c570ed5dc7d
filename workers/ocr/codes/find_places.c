#include "workers/ocr/codes/find_places.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROW_STEP = 4,      /* every fourth row is looked at: marks of 1.4 pixels a module are met */
    BLOCK = 64,        /* pixels of a row with a threshold of their own */
    CONTRAST_MIN = 64, /* of a block, in greys; codes on screen have 150 and more */
    MARK_MIN = 10,     /* pixels of the side of a corner mark, seven modules */
    MARKS_MAX = 64,    /* of a frame */
    /* A QR code has at most 177 modules a side, 25 marks; its diagonal is 36. */
    MARKS_APART = 36,
    /* Bars: changes of colour in two blocks, and pixels that differ from the rows below. Bars of
     * up to five pixels a module have 16; letters are not the same 16 rows below. */
    CHANGES_MIN = 16,
    DIFFERENT_MAX = 6,
    BARS_GAP = 24,         /* pixels between two bars at most, and rows between two looks */
    BARS_CHANGES_MIN = 40, /* of a whole code; EAN-8, the shortest, has 44 */
};

/* The frame in two colours: a bit is set where it is dark. */
struct bitmap {
    uint64_t *bits;
    int *edges; /* of one row: where the colour changes, first to dark */
    int words, rows;
};

struct mark {
    int x, y; /* its centre */
    int size;
};

static void bitmap_deinit(struct bitmap *map)
{
    free(map->bits);
    free(map->edges);
}
CV_DEFINE_CLEANUP_ADDRESS(struct bitmap, bitmap_deinit)

/* Where a block has no contrast it has the colour that the threshold of the last one that had
 * says. */
static uint64_t darken_block(const uint8_t *pixels, int *threshold)
{
    uint8_t low = UINT8_MAX, high = 0;
    uint64_t bits = 0;

    for (int i = 0; i < BLOCK; i++) {
        low = pixels[i] < low ? pixels[i] : low;
        high = pixels[i] > high ? pixels[i] : high;
    }
    if (high - low < CONTRAST_MIN) {
        return high < *threshold ? UINT64_MAX : 0;
    }
    *threshold = (low + high + 1) / 2;
    for (int i = 0; i < BLOCK; i++) {
        bits |= (uint64_t)(pixels[i] < *threshold) << i;
    }
    return bits;
}

static void darken_row(const uint8_t *pixels, int width, uint64_t *bits)
{
    int threshold = 128;
    uint8_t rest[BLOCK];

    for (int x = 0; x < width; x += BLOCK) {
        if (width - x < BLOCK) {
            memset(rest, pixels[width - 1], sizeof(rest));
            memcpy(rest, pixels + x, (size_t)(width - x));
        }
        *bits++ = darken_block(width - x < BLOCK ? rest : pixels + x, &threshold);
    }
}

static int find_edges(const uint64_t *bits, int words, int *edges)
{
    uint64_t last = 0;
    int count = 0;

    for (int w = 0; w < words; w++) {
        uint64_t changes = bits[w] ^ (bits[w] << 1 | last);
        last = bits[w] >> 63;
        for (; changes; changes &= changes - 1) {
            edges[count++] = w * BLOCK + __builtin_ctzll(changes);
        }
    }
    return count;
}

/* Whether dark, light, dark, light and dark are 1, 1, 3, 1 and 1 modules long, each within half a
 * module. */
static bool is_mark(const int *lengths, int *ret_size)
{
    int size = lengths[0] + lengths[1] + lengths[2] + lengths[3] + lengths[4];

    *ret_size = size;
    for (int i = 0; i < 5; i++) {
        int wanted = i == 2 ? 3 * size : size;
        if (abs(7 * lengths[i] - wanted) * 2 > size + (i == 2) * size) {
            return false;
        }
    }
    return size >= MARK_MIN;
}

/* Counts pixels of one colour from `y` on in a column; y goes on behind them. */
static int count_down(const struct cv_frame *frame, int x, int *y, int step, int threshold,
                      bool is_dark, int most)
{
    const uint8_t *luma = frame->plane[CV_LUMA];
    int count = 0;

    while (*y >= 0 && *y < frame->height && count <= most &&
           (luma[(size_t)*y * (size_t)frame->width + (size_t)x] < threshold) == is_dark) {
        count++;
        *y += step;
    }
    return count;
}

/* Whether the column through the middle of a mark in a row has the same lengths; corrects
 * mark->y. */
static bool is_mark_in_column(const struct cv_frame *frame, struct mark *mark, int light_x)
{
    const uint8_t *row = frame->plane[CV_LUMA] + (size_t)mark->y * (size_t)frame->width;
    int threshold = (row[mark->x] + row[light_x] + 1) / 2;
    int up = mark->y, down = mark->y + 1, size = 0;
    int above = count_down(frame, mark->x, &up, -1, threshold, true, mark->size);
    int below = count_down(frame, mark->x, &down, 1, threshold, true, mark->size);
    int lengths[5] = {0, 0, above + below, 0, 0};

    lengths[1] = count_down(frame, mark->x, &up, -1, threshold, false, mark->size);
    lengths[0] = count_down(frame, mark->x, &up, -1, threshold, true, mark->size);
    lengths[3] = count_down(frame, mark->x, &down, 1, threshold, false, mark->size);
    lengths[4] = count_down(frame, mark->x, &down, 1, threshold, true, mark->size);
    mark->y += (below - above) / 2;
    return is_mark(lengths, &size) && abs(size - mark->size) * 4 <= mark->size;
}

static bool is_known(const struct mark *marks, size_t count, const struct mark *mark)
{
    for (size_t i = 0; i < count; i++) {
        if (abs(marks[i].x - mark->x) < mark->size && abs(marks[i].y - mark->y) < mark->size) {
            return true;
        }
    }
    return false;
}

static size_t find_marks(const struct cv_frame *frame, const struct bitmap *map, struct mark *marks)
{
    size_t count = 0;

    for (int row = 0; row < map->rows; row++) {
        int edges =
            find_edges(map->bits + (size_t)row * (size_t)map->words, map->words, map->edges);
        for (int i = 0; i + 5 < edges; i += 2) {
            const int *at = map->edges + i;
            const int lengths[5] = {at[1] - at[0], at[2] - at[1], at[3] - at[2], at[4] - at[3],
                                    at[5] - at[4]};
            struct mark mark = {(at[2] + at[3]) / 2, row * ROW_STEP, 0};
            if (is_mark(lengths, &mark.size) && at[5] <= frame->width &&
                is_mark_in_column(frame, &mark, (at[1] + at[2]) / 2) &&
                !is_known(marks, count, &mark)) {
                marks[count++] = mark;
                if (count == MARKS_MAX) {
                    return count;
                }
            }
        }
    }
    return count;
}

/* Around the marks of one code, of which the third may not have been found. */
static struct cv_box box_of_marks(struct cv_box box, int size)
{
    int side = cv_max(box.width, box.height);
    int left = side - box.width + 2 * size, above = side - box.height + 2 * size;

    return (struct cv_box){box.x - left, box.y - above, box.width + 2 * left,
                           box.height + 2 * above};
}

/* Marks of one size that are near each other are of one code, or of several, which are read together. */
static size_t place_marks(const struct mark *marks, size_t count, struct ocr_code_place *places)
{
    bool taken[MARKS_MAX] = {0};
    size_t found = 0;

    for (size_t i = 0; i < count && found < OCR_CODE_PLACES_MAX; i++) {
        struct cv_box box = {marks[i].x, marks[i].y, 1, 1};
        int together = 1;
        for (size_t k = i + 1; !taken[i] && k < count; k++) {
            const struct cv_box other = {marks[k].x, marks[k].y, 1, 1};
            int apart = cv_max(abs(other.x - marks[i].x), abs(other.y - marks[i].y));
            if (!taken[k] && abs(marks[k].size - marks[i].size) * 3 <= marks[i].size &&
                apart <= MARKS_APART * marks[i].size) {
                taken[k] = true;
                together++;
                box = cv_box_union(&box, &other);
            }
        }
        if (together > 1) {
            places[found++] = (struct ocr_code_place){box_of_marks(box, marks[i].size), false};
        }
    }
    return found;
}

/* Whether two blocks of a row are bars: many changes, and the same eight and sixteen rows below. */
static bool are_bars(const uint64_t *bits, int words)
{
    int changes = 0, second = 0, third = 0;

    for (int i = 0; i < 2; i++) {
        changes += __builtin_popcountll(bits[i] ^ bits[i] << 1);
        second += __builtin_popcountll(bits[i] ^ bits[i + 2 * words]);
        third += __builtin_popcountll(bits[i] ^ bits[i + 4 * words]);
    }
    return changes >= CHANGES_MIN && second <= DIFFERENT_MAX && third <= DIFFERENT_MAX;
}

/* Widens a box of whole blocks to its outermost bars. False: it has too few bars for a code. */
static bool fit_bars(const struct bitmap *map, struct cv_box *box)
{
    size_t row = (size_t)((box->y + box->height / 2) / ROW_STEP);
    int edges = find_edges(map->bits + row * (size_t)map->words, map->words, map->edges);
    int first = 0;

    while (first < edges && map->edges[first] < box->x) {
        first++;
    }
    int last = first;
    for (; first > 0 && first < edges && map->edges[first] - map->edges[first - 1] <= BARS_GAP;) {
        first--;
    }
    while (last + 1 < edges && map->edges[last + 1] - map->edges[last] <= BARS_GAP) {
        last++;
    }
    if (last - first < BARS_CHANGES_MIN) {
        return false;
    }
    box->x = map->edges[first];
    box->width = map->edges[last] - box->x;
    return true;
}

/* Adds a pair of blocks to the bars that it touches, or as new ones. */
static size_t add_bars(struct ocr_code_place *places, size_t count, size_t from,
                       const struct cv_box *box)
{
    const struct cv_box near = {box->x - BARS_GAP, box->y - BARS_GAP, box->width + 2 * BARS_GAP,
                                box->height + 2 * BARS_GAP};

    for (size_t i = from; i < count; i++) {
        if (cv_box_overlap(&places[i].box, &near) > 0) {
            places[i].box = cv_box_union(&places[i].box, box);
            return count;
        }
    }
    if (count < OCR_CODE_PLACES_MAX) {
        places[count++] = (struct ocr_code_place){*box, true};
    }
    return count;
}

static size_t place_bars(const struct bitmap *map, struct ocr_code_place *places, size_t count)
{
    size_t from = count, kept = count;

    for (int row = 0; row + 4 < map->rows; row += 2) {
        const uint64_t *bits = map->bits + (size_t)row * (size_t)map->words;
        for (int w = 0; w + 1 < map->words; w++) {
            if (are_bars(bits + w, map->words)) {
                const struct cv_box box = {w * BLOCK, row * ROW_STEP, 2 * BLOCK, 4 * ROW_STEP};
                count = add_bars(places, count, from, &box);
            }
        }
    }
    for (size_t i = from; i < count; i++) {
        if (fit_bars(map, &places[i].box)) {
            places[kept++] = places[i];
        }
    }
    return kept;
}

int ocr_find_code_places(const struct cv_frame *frame, struct ocr_code_place *places,
                         size_t *ret_count, struct cv_error *error)
{
    cv_auto(bitmap_deinit) struct bitmap map = {
        .words = (frame->width + BLOCK - 1) / BLOCK,
        .rows = (frame->height + ROW_STEP - 1) / ROW_STEP,
    };
    struct mark marks[MARKS_MAX];

    map.bits = calloc((size_t)map.rows * (size_t)map.words, sizeof(*map.bits));
    map.edges = calloc((size_t)map.words * BLOCK, sizeof(*map.edges));
    CV_TRY_MEMORY(map.bits && map.edges, error, "looking for codes");
    for (int row = 0; row < map.rows; row++) {
        darken_row(frame->plane[CV_LUMA] + (size_t)row * ROW_STEP * (size_t)frame->width,
                   frame->width, map.bits + (size_t)row * (size_t)map.words);
    }
    size_t count = place_marks(marks, find_marks(frame, &map, marks), places);
    *ret_count = place_bars(&map, places, count);
    return 0;
}
