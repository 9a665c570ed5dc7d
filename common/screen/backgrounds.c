/* What letters stand on: buttons, marks, cards, cells of tables. The letters are components of their own already. */
#include "common/screen/find_lines.h"

enum {
    LETTER_MIN = 6,  /* pixels of height: what is smaller does not make a ground */
    LETTERS_ON = 3,  /* of half the tallest one's height: they make a ground of any shape */
    ROW_MOST = 3,    /* letter heights: a ground of one row is no higher */
    GROUND_MIN = 60, /* pixels of height: nothing as square as an emoji is a ground below */
};

bool ocr_is_stacked(const struct ocr_box *a, const struct ocr_box *b)
{
    int columns = ocr_min(ocr_right(a), ocr_right(b)) - ocr_max(a->x, b->x);
    return columns * 2 >= ocr_min(a->width, b->width) && !ocr_box_lies_in(a, b) &&
           !ocr_box_lies_in(b, a);
}

/* Whether `item` stands on `ground` and is no hole in it. */
static bool is_on(const struct ocr_component *item, const struct ocr_component *ground)
{
    const struct ocr_box *box = &item->box, *around = &ground->box;
    bool is_hole = item->is_inner && item->is_light != ground->is_light;

    return !is_hole && !item->is_picture && box->height >= LETTER_MIN && box->x > around->x &&
           box->y > around->y && ocr_right(box) < ocr_right(around) &&
           ocr_bottom(box) < ocr_bottom(around);
}

/* Whether a component is what letters stand on: a button, a mark, a cell of a table. `next` come behind
 * it in order. */
static bool is_ground(const struct ocr_component *ground, const struct ocr_component *next,
                      const struct ocr_component *end)
{
    int tallest = 0, letters = 0;
    bool is_wide = ground->box.width >= 2 * ground->box.height;
    bool is_frame = ground->box.height >= OCR_FRAME_MIN &&
                    ocr_is_rim(ground->box.width, ground->box.height, ground->pixels);

    if (!is_wide && !is_frame && ground->box.height < GROUND_MIN) {
        return false;
    }
    for (const struct ocr_component *item = next;
         item < end && item->box.x < ocr_right(&ground->box); item++) {
        tallest = is_on(item, ground) ? ocr_max(tallest, item->box.height) : tallest;
    }
    const struct ocr_component *last = NULL;
    for (const struct ocr_component *item = next;
         item < end && item->box.x < ocr_right(&ground->box); item++) {
        if (!is_on(item, ground) || item->box.height * 2 < tallest) {
            continue;
        }
        /* In one row letters stand side by side, eyes above mouths. */
        if (last && ground->box.height <= ROW_MOST * tallest &&
            ocr_is_stacked(&last->box, &item->box)) {
            return false;
        }
        last = item;
        letters++;
    }
    bool is_bar = is_wide && tallest * 5 >= ground->box.height * 2;
    return letters >= LETTERS_ON || (letters && (is_bar || is_frame));
}

/* Whether there were any. */
static bool remove_some(struct ocr_components *components)
{
    struct ocr_component *items = components->items, *end = items + components->count;
    size_t kept = 0;

    for (size_t i = 0; i < components->count; i++) {
        struct ocr_component item = items[i]; /* the ones behind are still in their places */
        if (!is_ground(&item, items + i + 1, end)) {
            items[kept++] = item;
        }
    }
    bool found = kept < components->count;
    components->count = kept;
    return found;
}

void ocr_grounds_remove(struct ocr_components *components)
{
    while (remove_some(components)) {
    }
}
