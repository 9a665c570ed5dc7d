#include "workers/ocr/marks.h"

enum {
    INK = 190,     /* darker is ink: a dot in faint grey counts, codec noise does not */
    RUNS_MAX = 512 /* glyphs of a line, side by side */
};

/* Columns that hold ink without a blank one between them. */
struct run {
    int left, right; /* right exclusive */
    int top, bottom; /* bottom exclusive */
};

static bool column_extent(const struct ocr_crop *crop, int x, struct run *run)
{
    bool found = false;

    for (int y = 0; y < crop->height; y++) {
        if (crop->grey[(size_t)y * (size_t)crop->width + (size_t)x] < INK) {
            run->top = ocr_min(run->top, y);
            run->bottom = ocr_max(run->bottom, y + 1);
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

    return width * 10 <= tall * 3 && height * 10 <= tall * 3 && width * 2 <= height * 3 &&
           height * 2 <= width * 3 && middle * 10 >= tall * 4 && middle * 10 <= tall * 11;
}

static size_t find_dots(const struct ocr_crop *crop, const struct run *runs, size_t count,
                        int baseline, struct ocr_mark *marks)
{
    size_t found = 0;

    for (size_t i = 1; i + 1 < count && found < OCR_MARKS_MAX; i++) {
        int before = runs[i].left - runs[i - 1].right, after = runs[i + 1].left - runs[i].right;
        if (before * 8 >= crop->tall && after * 8 >= crop->tall &&
            is_dot(&runs[i], baseline, crop->tall)) {
            marks[found++] = (struct ocr_mark){OCR_MARK_DOT, (runs[i].left + runs[i].right) / 2};
        }
    }
    return found;
}

static bool is_ink(const struct ocr_crop *crop, int x, int y)
{
    return crop->grey[(size_t)y * (size_t)crop->width + (size_t)x] < INK;
}

/* Whether the columns [from, to) hold ink in the rows [top, bottom). */
static bool has_ink(const struct ocr_crop *crop, int from, int to, int top, int bottom)
{
    for (int y = ocr_max(top, 0); y < ocr_min(bottom, crop->height); y++) {
        for (int x = from; x < to; x++) {
            if (is_ink(crop, x, y)) {
                return true;
            }
        }
    }
    return false;
}

/* Adds the bar [from, to) below the baseline when it is an underscore that is not known yet. */
static size_t add_underscore(const struct ocr_crop *crop, int from, int to, int baseline,
                             struct ocr_mark *marks, size_t found)
{
    int length = to - from, middle = (from + to) / 2, tall = crop->tall;
    int inset = length / 6;

    if (length * 5 < tall * 2 || length > tall * 2 || from == 0 || to == crop->width ||
        has_ink(crop, from + inset, to - inset, baseline - tall, baseline - tall / 12)) {
        return found;
    }
    for (size_t i = 0; i < found; i++) {
        if (marks[i].kind == OCR_MARK_UNDERSCORE && abs(marks[i].middle - middle) < tall / 3) {
            return found;
        }
    }
    if (found < OCR_MARKS_MAX) {
        marks[found++] = (struct ocr_mark){OCR_MARK_UNDERSCORE, middle};
    }
    return found;
}

static size_t find_underscores(const struct ocr_crop *crop, int baseline, struct ocr_mark *marks,
                               size_t found)
{
    for (int y = baseline; y < crop->height; y++) {
        for (int x = 0; x < crop->width; x++) {
            int from = x;
            while (x < crop->width && is_ink(crop, x, y)) {
                x++;
            }
            found = add_underscore(crop, from, x, baseline, marks, found);
        }
    }
    return found;
}

size_t ocr_marks_find(const struct ocr_crop *crop, struct ocr_mark marks[OCR_MARKS_MAX])
{
    struct run runs[RUNS_MAX];
    size_t count = find_runs(crop, runs);
    int baseline = find_baseline(runs, count, crop->tall, crop->height);

    if (baseline <= 0) {
        return 0;
    }
    size_t found = find_dots(crop, runs, count, baseline, marks);
    return find_underscores(crop, baseline, marks, found);
}
