#include "workers/ocr/ground.h"
#include "workers/ocr/grouping.h"
#include "workers/ocr/ink.h"

#include <string.h>

enum {
    GLYPHS_MIN = 4, /* of a faint line: folds and clouds have two or three in a row */
    TALL_MIN = 7,   /* pixels; what is smaller and faint nobody reads */
};

/* How much of a box an earlier one covers, in percent of its width, where they share their rows. */
static int covered(const struct ocr_box *box, const struct ocr_box *earlier)
{
    int rows = ocr_min(ocr_bottom(box), ocr_bottom(earlier)) - ocr_max(box->y, earlier->y);
    int columns = ocr_min(ocr_right(box), ocr_right(earlier)) - ocr_max(box->x, earlier->x);

    return rows * 2 >= box->height && columns > 0 ? columns * 100 / box->width : 0;
}

static bool is_within(const struct ocr_box *box, const struct ocr_box *around)
{
    int64_t area = (int64_t)box->width * box->height;
    return ocr_box_overlap(box, around) * 10 >= area * 7;
}

/* Whether a faint line is new: those of the strong edges that are in it are but its strongest letters. */
static bool take_place(const struct ocr_line *faint, struct ocr_lines *lines)
{
    enum { MOST = 75 };
    size_t kept = 0;

    for (size_t i = 0; i < lines->count; i++) {
        if (covered(&faint->box, &lines->items[i].box) >= MOST) {
            return false;
        }
    }
    for (size_t i = 0; i < lines->count; i++) {
        if (!is_within(&lines->items[i].box, &faint->box)) {
            lines->items[kept++] = lines->items[i];
        }
    }
    lines->count = kept;
    return true;
}

static bool is_text(const struct ocr_frame *frame, const struct ocr_ground *ground,
                    const struct ocr_line *line)
{
    struct ocr_ink ink;

    if (line->glyphs < GLYPHS_MIN || line->tall < TALL_MIN || !ocr_ground_holds(ground, line)) {
        return false;
    }
    ocr_ink_measure_faint(frame, &line->box, &ink);
    return ocr_ink_is_clear(&ink);
}

/* Puts the glyphs of `more` behind those of `lines`. */
static int join_glyphs(struct ocr_lines *lines, const struct ocr_lines *more,
                       struct cv_error *error)
{
    size_t count = lines->glyph_count + more->glyph_count;
    struct ocr_box *glyphs = realloc(lines->glyphs, (count + 1) * sizeof(*glyphs));

    if (!glyphs) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %zu letters", count);
    }
    if (more->glyph_count) {
        memcpy(glyphs + lines->glyph_count, more->glyphs, more->glyph_count * sizeof(*glyphs));
    }
    lines->glyphs = glyphs;
    lines->glyph_count = count;
    return 0;
}

static int add_faint(const struct ocr_frame *frame, struct ocr_ground *ground,
                     struct ocr_lines *lines, struct cv_error *error)
{
    cv_auto(ocr_components_deinit) struct ocr_components components = {0};
    cv_auto(ocr_lines_deinit) struct ocr_lines found = {0};
    size_t first = lines->glyph_count;
    bool any = false;

    int result = ocr_ground_learn(ground, frame, &any, error);
    if (result < 0 || !any) {
        return result;
    }
    result = ocr_components_faint(frame, ground, &components, error);
    result = result ? result : ocr_lines_group(&components, &found, error);
    result = result ? result : join_glyphs(lines, &found, error);
    for (size_t i = 0; result == 0 && i < found.count; i++) {
        struct ocr_line line = found.items[i];
        if (lines->count < OCR_LINES_MAX && is_text(frame, ground, &line) &&
            take_place(&line, lines)) {
            line.first_glyph += first;
            line.is_faint = true;
            lines->items[lines->count++] = line;
        }
    }
    ocr_lines_sort(lines);
    return result;
}

int ocr_lines_find(const struct ocr_frame *frame, struct ocr_lines *ret_lines,
                   struct cv_error *error)
{
    cv_auto(ocr_components_deinit) struct ocr_components components = {0};
    cv_auto(ocr_ground_deinit) struct ocr_ground ground = {0};
    cv_auto(ocr_lines_deinit) struct ocr_lines lines = {0};

    int result = ocr_ground_init(&ground, frame, error);
    result = result ? result : ocr_components_find(frame, &ground, &components, error);
    result = result ? result : ocr_lines_group(&components, &lines, error);
    result = result ? result : add_faint(frame, &ground, &lines, error);
    if (result < 0) {
        return result;
    }
    *ret_lines = lines;
    lines = (struct ocr_lines){0};
    return 0;
}
