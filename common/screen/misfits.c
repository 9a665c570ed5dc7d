#include "common/screen/group_lines.h"

#include <string.h>

enum {
    DOTS_MOST = 2,  /* of a letter */
    TALL_MOST = 60, /* pixels: beside taller things, letters may be less than a tenth as high */
};

/* Whether a component lies inside of another that is no wider than a letter or two: the hole of an
 * o, or the inner outline of a bold letter. */
static bool is_hole(const struct ocr_grouping *all, size_t item)
{
    const struct ocr_box *box = &all->items[item].box;

    for (size_t i = item; i-- > 0 && box->x - all->items[i].box.x <= OCR_GLYPH_HEIGHT_MAX * 2;) {
        const struct ocr_box *around = &all->items[i].box;
        if (ocr_right(around) >= ocr_right(box) && around->y <= box->y &&
            ocr_bottom(around) >= ocr_bottom(box) && around->width <= 2 * around->height) {
            return true;
        }
    }
    return false;
}

static bool is_of(const struct ocr_grouping *all, size_t item, int line)
{
    return all->line_of[item] != OCR_NO_LINE && ocr_grouping_root(all, all->line_of[item]) == line;
}

static void note_end(struct ocr_letters *ends, const struct ocr_component *items, int item)
{
    ends->tallest = ocr_max(ends->tallest, items[item].box.height);
    ends->first = ends->first == OCR_NO_LINE ? item : ends->first; /* items are in order of x */
    if (ends->last == OCR_NO_LINE ||
        ocr_right(&items[item].box) > ocr_right(&items[ends->last].box)) {
        ends->last = item;
    }
}

/* What else a line has than one of its ends and what lies in that: a picture in its frame. */
struct rest {
    int tallest; /* pixels; 0: nothing */
    int gap;     /* pixels from the end; 0 where they touch */
};

static struct rest rest_of(const struct ocr_grouping *all, int line, int end)
{
    const struct ocr_box *box = &all->items[end].box;
    struct rest rest = {0, OCR_GLYPH_HEIGHT_MAX};

    for (size_t i = 0; i < all->count; i++) {
        const struct ocr_box *other = &all->items[i].box;
        if (!is_of(all, i, line) || ocr_box_lies_in(other, box)) {
            continue;
        }
        int gap = ocr_max(other->x - ocr_right(box), box->x - ocr_right(other));
        rest.gap = ocr_max(ocr_min(rest.gap, gap), 0);
        rest.tallest = ocr_max(rest.tallest, other->height);
    }
    return rest;
}

/* An avatar of one colour before a name, a button behind it: about as wide as high, larger than anything else of the
 * line, and further from it than a blank; where it is so large that it can be no emoji, not so far. */
static bool stands_apart(const struct ocr_grouping *all, int line, int tallest, int end)
{
    const struct ocr_box *box = &all->items[end].box;

    if (box->height < tallest || box->width * 10 < box->height * 7 ||
        box->width * 10 > box->height * 14) {
        return false;
    }
    struct rest rest = rest_of(all, line, end);
    bool large = box->height * 20 >= rest.tallest * 33;
    return rest.tallest >= OCR_GLYPH_HEIGHT_MIN + 2 && box->height * 10 >= rest.tallest * 13 &&
           (large || !all->items[end].has_parts) &&
           rest.gap * 20 >= rest.tallest * (large ? 7 : 11);
}

/* Marks what stands apart at the ends of lines; whether there is any. */
static bool find_apart(const struct ocr_grouping *all, bool *left_out, struct ocr_letters *ends)
{
    bool found = false;

    for (int i = 0; i < all->line_count; i++) {
        ends[i].first = ends[i].last = OCR_NO_LINE;
    }
    for (size_t i = 0; i < all->count; i++) {
        if (all->line_of[i] != OCR_NO_LINE) {
            note_end(&ends[ocr_grouping_root(all, all->line_of[i])], all->items, (int)i);
        }
    }
    for (int i = 0; i < all->line_count; i++) {
        for (int k = 0; k < 2 && ends[i].tallest; k++) {
            int end = k ? ends[i].last : ends[i].first;
            if (!stands_apart(all, i, ends[i].tallest, end)) {
                continue;
            }
            found = true;
            for (size_t item = 0; item < all->count; item++) {
                left_out[item] = left_out[item] ||
                                 (is_of(all, item, i) &&
                                  ocr_box_lies_in(&all->items[item].box, &all->items[end].box));
            }
        }
    }
    return found;
}

/* Whether the small components of a line are its letters: they are wider than the others. A single large thing
 * with a label, such as a bar of a chart, has more of them than a letter has dots. */
static bool outweigh(const struct ocr_letters *letters, int tall)
{
    bool is_label = letters->rest_count == 1 && letters->count > DOTS_MOST &&
                    letters->width * 2 >= letters->rest;

    return is_label || (letters->width * 4 >= tall * 3 && letters->width >= letters->rest);
}

bool ocr_misfits_find(const struct ocr_grouping *all, bool *left_out, struct ocr_letters *letters)
{
    bool found = false;

    memset(letters, 0, (size_t)all->line_count * sizeof(*letters));
    found = find_apart(all, left_out, letters);
    for (size_t i = 0; i < all->count; i++) {
        int line =
            all->line_of[i] == OCR_NO_LINE ? OCR_NO_LINE : ocr_grouping_root(all, all->line_of[i]);
        const struct ocr_box *box = &all->items[i].box;
        if (line == OCR_NO_LINE) {
            continue;
        }
        if (box->height * 20 >= all->lines[line].tall * 9) {
            letters[line].rest += box->width;
            letters[line].rest_count++;
        } else if (box->height * 10 >= ocr_min(all->lines[line].tall, TALL_MOST) &&
                   !is_hole(all, i)) {
            letters[line].count++;
            letters[line].tall = ocr_max(letters[line].tall, box->height);
            letters[line].width += box->width;
        }
    }
    for (size_t i = 0; i < all->count; i++) {
        int line =
            all->line_of[i] == OCR_NO_LINE ? OCR_NO_LINE : ocr_grouping_root(all, all->line_of[i]);
        if (line != OCR_NO_LINE && letters[line].tall >= OCR_GLYPH_HEIGHT_MIN + 2 &&
            outweigh(&letters[line], all->lines[line].tall) &&
            all->items[i].box.height * 10 > letters[line].tall * 22) {
            left_out[i] = true;
            found = true;
        }
    }
    return found;
}
