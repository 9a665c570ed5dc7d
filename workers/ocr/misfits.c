#include "workers/ocr/grouping.h"

#include <string.h>

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

static void note_end(struct ocr_letters *ends, const struct ocr_component *items, int item)
{
    int height = items[item].box.height;

    if (height > ends->tallest) {
        ends->second = ends->tallest;
        ends->tallest = height;
    } else {
        ends->second = ocr_max(ends->second, height);
    }
    ends->first = ends->first == OCR_NO_LINE ? item : ends->first; /* items are in order of x */
    if (ends->last == OCR_NO_LINE ||
        ocr_right(&items[item].box) > ocr_right(&items[ends->last].box)) {
        ends->last = item;
    }
}

/* Pixels between an end of a line and what stands beside it there; 0 when they touch. */
static int gap_beside(const struct ocr_grouping *all, int line, int end)
{
    const struct ocr_box *box = &all->items[end].box;
    int gap = OCR_GLYPH_HEIGHT_MAX;

    for (size_t i = 0; i < all->count; i++) {
        const struct ocr_box *other = &all->items[i].box;
        if ((int)i != end && all->line_of[i] != OCR_NO_LINE &&
            ocr_grouping_root(all, all->line_of[i]) == line) {
            gap = ocr_min(gap, ocr_max(other->x - ocr_right(box), box->x - ocr_right(other)));
        }
    }
    return ocr_max(gap, 0);
}

/* An avatar of one colour before a name, a button behind it: about as wide as high, larger than anything else of the
 * line, and further from it than a blank; where it is so large that it can be no emoji, not so far. */
static bool stands_apart(const struct ocr_grouping *all, int line, const struct ocr_letters *ends,
                         int end)
{
    const struct ocr_box *box = &all->items[end].box;
    bool large = box->height * 20 >= ends->second * 33;

    if (box->height < ends->tallest || ends->second < OCR_GLYPH_HEIGHT_MIN + 2 ||
        box->height * 10 < ends->second * 13 || box->width * 10 < box->height * 7 ||
        box->width * 10 > box->height * 14 || !(large || !all->items[end].has_parts)) {
        return false;
    }
    return gap_beside(all, line, end) * 20 >= ends->second * (large ? 7 : 11);
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
        for (int k = 0; k < 2 && ends[i].second; k++) {
            int end = k ? ends[i].last : ends[i].first;
            if (stands_apart(all, i, &ends[i], end)) {
                left_out[end] = found = true;
            }
        }
    }
    return found;
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
        } else if (box->height * 10 >= all->lines[line].tall && !is_hole(all, i)) {
            letters[line].tall = ocr_max(letters[line].tall, box->height);
            letters[line].width += box->width;
        }
    }
    for (size_t i = 0; i < all->count; i++) {
        int line =
            all->line_of[i] == OCR_NO_LINE ? OCR_NO_LINE : ocr_grouping_root(all, all->line_of[i]);
        if (line != OCR_NO_LINE && letters[line].tall >= OCR_GLYPH_HEIGHT_MIN + 2 &&
            letters[line].width * 4 >= all->lines[line].tall * 3 &&
            letters[line].width >= letters[line].rest &&
            all->items[i].box.height * 10 > letters[line].tall * 22) {
            left_out[i] = true;
            found = true;
        }
    }
    return found;
}
