#include "common/screen/find_lines.h"

#include "common/screen/group_lines.h"
#include "common/screen/ink.h"
#include "common/screen/touching_rows.h"

#include <string.h>

enum {
    GLYPHS_MIN = 4, /* of a faint line: folds and clouds have two or three in a row */
    FAINT_MOST =
        CV_EDGE_STRONG * 3 / 2, /* levels: the strongest letters of a faint line may be strong */
    TALL_MIN = 7,               /* pixels; what is smaller and faint nobody reads */
    LETTERS_MIN = 2,            /* of a background: letters on it; a hole is no letter */
    SPECK_REACH = 8,  /* pixels: codecs leave their noise in the block of an edge, 8 × 8 */
    SPECK_BESIDE = 8, /* pixels of height of what makes specks around itself */
    /* Percent of the contrast of what is beside it: specks around white letters on dark blue have 8 to 25,
     * dots and accents 80 and more. */
    SPECK_CONTRAST = 33,
    SPECK_HEIGHT = 40, /* percent of the height of what is beside it */
};

/* How much of a box an earlier one covers, in percent of its width, where they share their rows. */
static int covered(const struct cv_box *box, const struct cv_box *earlier)
{
    int rows = cv_min(cv_box_bottom(box), cv_box_bottom(earlier)) - cv_max(box->y, earlier->y);
    int columns = cv_min(cv_box_right(box), cv_box_right(earlier)) - cv_max(box->x, earlier->x);

    return rows * 2 >= box->height && columns > 0 ? columns * 100 / box->width : 0;
}

static bool is_within(const struct cv_box *box, const struct cv_box *around)
{
    int64_t area = (int64_t)box->width * box->height;
    return cv_box_overlap(box, around) * 10 >= area * 7;
}

/* Whether a faint line is new: lines of strong edges that are in it are but its strongest letters, which are fewer than
 * its own. Specks beside a picture that reaches over several lines are not. */
static bool is_new_line(const struct cv_text_line *faint, struct cv_text_lines *lines)
{
    enum { MOST = 75 };
    size_t kept = 0;
    int within = 0;

    for (size_t i = 0; i < lines->count; i++) {
        const struct cv_text_line *line = &lines->items[i];
        if (covered(&faint->box, &line->box) >= MOST) {
            return false;
        }
        within += is_within(&line->box, &faint->box) ? line->glyphs : 0;
    }
    if (within > faint->glyphs) {
        return false;
    }
    for (size_t i = 0; i < lines->count; i++) {
        if (!is_within(&lines->items[i].box, &faint->box)) {
            lines->items[kept++] = lines->items[i];
        }
    }
    lines->count = kept;
    return true;
}

static bool is_faint_text(const struct cv_frame *frame, const struct cv_text_line *line)
{
    struct cv_ink ink;

    if (line->glyphs < GLYPHS_MIN || line->tall < TALL_MIN) {
        return false;
    }
    cv_ink_measure_faint(frame, &line->box, line->is_light, &ink);
    return cv_ink_is_clear(&ink);
}

/* Puts the glyphs of `more` behind those of `lines`. */
static int join_glyphs(struct cv_text_lines *lines, const struct cv_text_lines *more,
                       struct cv_error *error)
{
    size_t count = lines->glyph_count + more->glyph_count;
    struct cv_box *glyphs = realloc(lines->glyphs, (count + 1) * sizeof(*glyphs));

    CV_TRY_MEMORY(glyphs, error, "letters");
    if (more->glyph_count) {
        memcpy(glyphs + lines->glyph_count, more->glyphs, more->glyph_count * sizeof(*glyphs));
    }
    lines->glyphs = glyphs;
    lines->glyph_count = count;
    return 0;
}

/* The components of one side and strength. */
static int select_components(const struct cv_components *all, bool is_light, bool is_faint,
                             struct cv_components *ret_some, struct cv_error *error)
{
    struct cv_component *items = calloc(all->count + 1, sizeof(*items));
    size_t count = 0;

    CV_TRY_MEMORY(items, error, "components");
    for (size_t i = 0; i < all->count; i++) {
        const struct cv_component *item = &all->items[i];
        bool is_wanted = is_faint ? item->peak < FAINT_MOST : item->peak >= CV_EDGE_STRONG;
        if ((item->is_light == is_light || item->is_picture) && is_wanted) {
            items[count++] = *item;
        }
    }
    *ret_some = (struct cv_components){items, count};
    return 0;
}

/* Glyphs of lines of the other side that lie in a box and are large enough to be letters on it. One that
 * nearly fills it is a letter, too: the box is its outline. */
static int letters_on(const struct cv_text_lines *lines, const struct cv_text_line *outer,
                      const struct cv_box *glyph)
{
    int count = 0;

    for (size_t i = 0; i < lines->count && count < LETTERS_MIN; i++) {
        const struct cv_text_line *line = &lines->items[i];
        if (line->is_light == outer->is_light || !cv_box_overlap(&line->box, glyph)) {
            continue;
        }
        for (size_t k = 0; k < line->glyph_count; k++) {
            const struct cv_box *letter = &lines->glyphs[line->first_glyph + k];
            bool fills = outer->glyph_count > 1 && letter->height * 5 >= glyph->height * 4 &&
                         letter->width < glyph->width;
            bool is_letter = letter->height * 20 >= glyph->height * 7;
            count += cv_box_lies_in(letter, glyph) ? fills ? LETTERS_MIN : is_letter : 0;
        }
    }
    return count;
}

/* Whether the glyphs of a line are backgrounds: each holds letters side by side. Letters have holes, but few
 * have two beside each other. */
static bool is_ground(const struct cv_text_lines *lines, const struct cv_text_line *outer)
{
    int holding = 0, all = 0;

    for (size_t i = 0; i < outer->glyph_count; i++) {
        const struct cv_box *glyph = &lines->glyphs[outer->first_glyph + i];
        all += glyph->width;
        holding += letters_on(lines, outer, glyph) >= LETTERS_MIN ? glyph->width : 0;
    }
    return holding * 10 >= all * 6;
}

static void remove_gone(struct cv_text_lines *lines, const bool *gone)
{
    size_t kept = 0;

    for (size_t i = 0; i < lines->count; i++) {
        if (!gone[i]) {
            lines->items[kept++] = lines->items[i];
        }
    }
    lines->count = kept;
}

/* Where a line of one side lies in a line of the other, only one of them is text: the letters on
 * a background, or the letters around their holes. */
static int settle_sides(struct cv_text_lines *lines, struct cv_error *error)
{
    cv_auto_free bool *gone = calloc(lines->count + 1, sizeof(*gone));

    CV_TRY_MEMORY(gone, error, "text lines");
    for (size_t i = 0; i < lines->count; i++) {
        gone[i] = is_ground(lines, &lines->items[i]);
    }
    remove_gone(lines, gone);
    memset(gone, 0, lines->count);
    for (size_t i = 0; i < lines->count; i++) {
        for (size_t k = 0; k < lines->count && !gone[i]; k++) {
            const struct cv_text_line *outer = &lines->items[k];
            gone[i] = lines->items[i].is_light != outer->is_light && !gone[k] &&
                      is_within(&lines->items[i].box, &outer->box);
        }
    }
    remove_gone(lines, gone);
    return 0;
}

static int add_lines(const struct cv_frame *frame, const struct cv_components *all, bool is_light,
                     bool is_faint, struct cv_text_lines *lines, struct cv_error *error)
{
    cv_auto(cv_components_deinit) struct cv_components components = {0};
    cv_auto(cv_text_lines_deinit) struct cv_text_lines found = {0};
    size_t first = lines->glyph_count;

    CV_TRY(select_components(all, is_light, is_faint, &components, error));
    CV_TRY(cv_text_lines_group(&components, &found, error));
    CV_TRY(join_glyphs(lines, &found, error));
    for (size_t i = 0; i < found.count; i++) {
        struct cv_text_line line = found.items[i];
        line.first_glyph += first;
        line.is_light = is_light;
        line.is_faint = is_faint;
        if (lines->count < CV_TEXT_LINES_MAX &&
            (!is_faint || (is_faint_text(frame, &line) && is_new_line(&line, lines)))) {
            lines->items[lines->count++] = line;
        }
    }
    return 0;
}

static bool is_speck(const struct cv_component *item, const struct cv_component *beside)
{
    const struct cv_box *box = &item->box, *other = &beside->box;

    return box->height * 100 < other->height * SPECK_HEIGHT && !item->is_picture &&
           item->peak * 100 < beside->peak * SPECK_CONTRAST &&
           box->x < cv_box_right(other) + SPECK_REACH &&
           cv_box_right(box) > other->x - SPECK_REACH &&
           box->y < cv_box_bottom(other) + SPECK_REACH &&
           cv_box_bottom(box) > other->y - SPECK_REACH;
}

/* Removes the noise that a codec leaves around strong letters: it would join rows and fill blanks. */
static int remove_specks(struct cv_components *components, struct cv_error *error)
{
    struct cv_component *items = components->items;
    cv_auto_free bool *gone = calloc(components->count + 1, sizeof(*gone));
    size_t kept = 0;

    CV_TRY_MEMORY(gone, error, "components");
    for (size_t i = 0; i < components->count; i++) {
        const struct cv_component *item = &items[i];
        int reach = SPECK_REACH + item->box.height * SPECK_HEIGHT / 100;
        if (item->box.height < SPECK_BESIDE || item->peak * SPECK_CONTRAST < CV_EDGE_FAINT * 100) {
            continue;
        }
        for (size_t k = i; k-- > 0 && item->box.x - items[k].box.x <= reach;) {
            gone[k] = gone[k] || is_speck(&items[k], item);
        }
        for (size_t k = i + 1;
             k < components->count && items[k].box.x < cv_box_right(&item->box) + SPECK_REACH;
             k++) {
            gone[k] = gone[k] || is_speck(&items[k], item);
        }
    }
    for (size_t i = 0; i < components->count; i++) {
        if (!gone[i]) {
            items[kept++] = items[i];
        }
    }
    components->count = kept;
    return 0;
}

int cv_text_lines_find(struct cv_frame *frame, struct cv_text_lines *ret_lines,
                       struct cv_error *error)
{
    cv_auto(cv_components_deinit) struct cv_components components = {0};
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = {0};

    lines.items = calloc(CV_TEXT_LINES_MAX, sizeof(*lines.items));
    CV_TRY_MEMORY(lines.items, error, "text lines");
    CV_TRY(cv_components_find(frame, &components, error));
    CV_TRY(remove_specks(&components, error));
    CV_TRY(cv_touching_rows_cut(&components, error));
    for (int faint = 0; faint < 2; faint++) {
        for (int light = 0; light < 2; light++) {
            CV_TRY(add_lines(frame, &components, light, faint, &lines, error));
        }
        CV_TRY(settle_sides(&lines, error));
    }
    cv_text_lines_sort(&lines);
    *ret_lines = lines;
    lines = (struct cv_text_lines){0};
    return 0;
}
