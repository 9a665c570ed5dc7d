#include "workers/ocr/reading/special_characters.h"

#include <leptonica/allheaders.h>
#include <string.h>

enum {
    INK = 190,      /* darker is ink: a dot in faint grey counts, codec noise does not */
    RUNS_MAX = 512, /* glyphs of a line, side by side */
    ARROW_MIN = 8,  /* pixels along an arrow: of smaller ones a codec leaves no head */
    SHAPE_INK =
        128, /* darker is ink of a shape: half covered pixels make a stem as wide as a head */
};

/* Columns that hold ink without a blank one between them. */
struct run {
    int left, right; /* right exclusive */
    int top, bottom; /* bottom exclusive */
};

static int level_at(const struct ocr_crop *crop, int x, int y)
{
    return crop->grey[(size_t)y * (size_t)crop->width + (size_t)x];
}

static bool is_ink(const struct ocr_crop *crop, int x, int y)
{
    return level_at(crop, x, y) < INK;
}

static bool column_extent(const struct ocr_crop *crop, int x, struct run *run)
{
    bool found = false;

    for (int y = 0; y < crop->height; y++) {
        if (is_ink(crop, x, y)) {
            run->top = cv_min(run->top, y);
            run->bottom = cv_max(run->bottom, y + 1);
            found = true;
        }
    }
    return found;
}

static size_t find_runs(const struct ocr_crop *crop, struct run *runs)
{
    size_t count = 0;
    bool inside = false;

    for (int x = 0; x < crop->width; x++) {
        struct run here = {x, x + 1, crop->height, 0};
        if (inside) {
            here = runs[count - 1];
        }
        if (!column_extent(crop, x, &here)) {
            inside = false;
            continue;
        }
        if (!inside && count == RUNS_MAX) {
            break;
        }
        count += !inside;
        inside = true;
        here.right = x + 1;
        runs[count - 1] = here;
    }
    return count;
}

/* Where most tall letters stand; -1 when there are none. */
static int find_baseline(const struct run *runs, size_t count, int tall, int height)
{
    int best = -1, most = 0;

    for (int y = 1; y <= height; y++) {
        int here = 0;
        for (size_t i = 0; i < count; i++) {
            bool letter = (runs[i].bottom - runs[i].top) * 10 >= tall * 6;
            here += letter && abs(runs[i].bottom - y) <= 1;
        }
        if (here > most) {
            most = here;
            best = y;
        }
    }
    return best;
}

static bool is_dot(const struct run *run, int baseline, int tall)
{
    int width = run->right - run->left, height = run->bottom - run->top;
    int middle = baseline * 2 - run->top - run->bottom; /* twice the height of its middle */
    int below = baseline - run->bottom;

    return width * 10 <= tall * 3 && height * 10 <= tall * 3 && width * 2 <= height * 3 &&
           height * 2 <= width * 3 && below >= 2 && below * 6 >= tall && middle * 10 <= tall * 11;
}

static void add(struct ocr_special_characters *marks, struct cv_box box, const char *text)
{
    if (marks->count < OCR_SPECIAL_CHARACTERS_MAX) {
        marks->items[marks->count++] = (struct ocr_special_character){box, text};
    }
}

/* The ink of one row of a glyph that is laid so that an arrow of it would point up. */
struct extent {
    int from, to; /* `to` exclusive; 0 where there is no ink */
    bool has_gap; /* paper between them */
};

/* A glyph, and the side its point would be on. */
struct turned_glyph {
    const struct ocr_crop *crop;
    struct cv_box box;
    int side; /* 0: up, 1: down, 2: left, 3: right */
};

static int length_of(const struct turned_glyph *glyph)
{
    return glyph->side < 2 ? glyph->box.height : glyph->box.width;
}

static int breadth_of(const struct turned_glyph *glyph)
{
    return glyph->side < 2 ? glyph->box.width : glyph->box.height;
}

static struct extent extent_at(const struct turned_glyph *glyph, int at)
{
    int along = glyph->side % 2 ? length_of(glyph) - 1 - at : at;
    struct extent extent = {0, 0, false};
    int ink = 0;

    for (int i = 0; i < breadth_of(glyph); i++) {
        int x = glyph->box.x + (glyph->side < 2 ? i : along);
        int y = glyph->box.y + (glyph->side < 2 ? along : i);
        if (level_at(glyph->crop, x, y) < SHAPE_INK) {
            extent.from = extent.to ? extent.from : i;
            extent.to = i + 1;
            ink++;
        }
    }
    extent.has_gap = ink < extent.to - extent.from;
    return extent;
}

/* Whether a glyph is an arrow: from its point on it widens, to its full breadth, and is at once a stem in the
 * middle. A T begins wide, a plus sign is square and widens all at once, a 1 has its stem at the side, a 4 has a bar below paper. */
static bool is_arrow(const struct turned_glyph *glyph)
{
    int length = length_of(glyph), breadth = breadth_of(glyph), widest = 0, most = 0;
    bool has_gap = false, is_closed = false;

    if (length < ARROW_MIN || breadth * 20 > length * 17 || breadth * 10 < length * 3) {
        return false;
    }
    for (int at = 0; at < length; at++) {
        struct extent extent = extent_at(glyph, at);
        int width = extent.to - extent.from;
        if (!width || abs(extent.from + extent.to - breadth) * 6 > breadth + 5) {
            return false; /* not in the middle */
        }
        is_closed = width > most ? has_gap && !extent.has_gap : is_closed;
        has_gap |= extent.has_gap;
        widest = width > most ? at : widest;
        most = cv_max(most, width);
    }
    if (is_closed || widest * 10 < length || widest * 10 > length * 6) {
        return false;
    }
    struct extent point = extent_at(glyph, 0), half = extent_at(glyph, (widest + 1) / 2);
    int stem = 0;
    for (int at = widest + 1 + (length + 4) / 8; at < length; at++) {
        struct extent extent = extent_at(glyph, at);
        stem = cv_max(stem, extent.to - extent.from);
    }
    return (point.to - point.from) * 10 <= most * 6 && stem * 10 <= most * 5 &&
           half.to - half.from > stem && half.to - half.from < most;
}

static void find_dots(const struct ocr_crop *crop, const struct run *runs, size_t count,
                      int baseline, struct ocr_special_characters *marks)
{
    for (size_t i = 1; i + 1 < count; i++) {
        int before = runs[i].left - runs[i - 1].right, after = runs[i + 1].left - runs[i].right;
        if (before * 5 >= crop->tall && after * 5 >= crop->tall &&
            is_dot(&runs[i], baseline, crop->tall)) {
            add(marks,
                (struct cv_box){runs[i].left, runs[i].top, runs[i].right - runs[i].left,
                                runs[i].bottom - runs[i].top},
                "·");
        }
    }
}

static void add_arrow(const struct ocr_crop *crop, struct cv_box box,
                      struct ocr_special_characters *marks)
{
    static const char *const arrows[] = {"↑", "↓", "←", "→"};

    for (int side = 0; side < 4 && cv_max(box.width, box.height) * 2 >= crop->tall; side++) {
        if (is_arrow(&(struct turned_glyph){crop, box, side})) {
            add(marks, box, arrows[side]);
            return;
        }
    }
}

/* Without memory none is found. */
static void find_arrows(const struct ocr_crop *crop, struct ocr_special_characters *marks)
{
    PIX *ink = pixCreate(crop->width, crop->height, 1);
    BOXA *boxes = NULL;

    for (int y = 0; ink && y < crop->height; y++) {
        for (int x = 0; x < crop->width; x++) {
            if (level_at(crop, x, y) < SHAPE_INK) {
                (void)pixSetPixel(ink, x, y, 1);
            }
        }
    }
    boxes = ink ? pixConnCompBB(ink, 8) : NULL;
    for (int i = 0; boxes && i < boxaGetCount(boxes); i++) {
        struct cv_box box;
        if (boxaGetBoxGeometry(boxes, i, &box.x, &box.y, &box.width, &box.height) == 0) {
            add_arrow(crop, box, marks);
        }
    }
    boxaDestroy(&boxes);
    pixDestroy(&ink);
}

/* Whether the columns [from, to) hold ink in the rows [top, bottom). */
static bool has_ink(const struct ocr_crop *crop, int from, int to, int top, int bottom)
{
    for (int y = cv_max(top, 0); y < cv_min(bottom, crop->height); y++) {
        for (int x = from; x < to; x++) {
            if (is_ink(crop, x, y)) {
                return true;
            }
        }
    }
    return false;
}

/* Adds the bar [from, to) in row y below the baseline when it is an underscore that is not known yet. */
static void add_underscore(const struct ocr_crop *crop, int from, int to, int y, int baseline,
                           struct ocr_special_characters *marks)
{
    int length = to - from, middle = (from + to) / 2, tall = crop->tall;
    int inset = length / 6;

    if (length * 5 < tall * 2 || length > tall * 2 || from == 0 || to == crop->width ||
        has_ink(crop, from + inset, to - inset, baseline - tall, baseline - tall / 12)) {
        return;
    }
    for (size_t i = 0; i < marks->count; i++) {
        const struct ocr_special_character *mark = &marks->items[i];
        if (ocr_is_underscore(mark->text) &&
            abs(mark->box.x + mark->box.width / 2 - middle) < tall / 3) {
            return;
        }
    }
    add(marks, (struct cv_box){from, y, length, 1}, "_");
}

static void find_underscores(const struct ocr_crop *crop, int baseline,
                             struct ocr_special_characters *marks)
{
    for (int y = baseline; y < crop->height; y++) {
        for (int x = 0; x < crop->width; x++) {
            int from = x;
            while (x < crop->width && is_ink(crop, x, y)) {
                x++;
            }
            add_underscore(crop, from, x, y, baseline, marks);
        }
    }
}

static int compare_marks(const void *left, const void *right)
{
    return ((const struct ocr_special_character *)left)->box.x -
           ((const struct ocr_special_character *)right)->box.x;
}

bool ocr_is_underscore(const char *text)
{
    return strcmp(text, "_") == 0;
}

bool ocr_is_middle_dot(const char *text)
{
    return strcmp(text, "·") == 0;
}

void ocr_special_characters_find(const struct ocr_crop *crop,
                                 struct ocr_special_characters *ret_marks)
{
    struct run runs[RUNS_MAX];
    size_t count = find_runs(crop, runs);
    int baseline = find_baseline(runs, count, crop->tall, crop->height);

    ret_marks->count = 0;
    if (baseline > 0) {
        find_dots(crop, runs, count, baseline, ret_marks);
        find_arrows(crop, ret_marks);
        find_underscores(crop, baseline, ret_marks);
        qsort(ret_marks->items, ret_marks->count, sizeof(*ret_marks->items), compare_marks);
    }
}
