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

bool ocr_misfits_find(const struct ocr_grouping *all, bool *left_out, struct ocr_letters *letters)
{
    bool found = false;

    memset(letters, 0, (size_t)all->line_count * sizeof(*letters));
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
            letters[line].width * 2 >= letters[line].rest &&
            all->items[i].box.height * 10 > letters[line].tall * 22) {
            left_out[i] = true;
            found = true;
        }
    }
    return found;
}
