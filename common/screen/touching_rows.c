#include "common/screen/touching_rows.h"

#include <string.h>

enum {
    NEAR = 3, /* heights of the component: how far its neighbours in the rows are looked for */
    BESIDE_MIN = 3,  /* letters of each row that have to stand there, some on each side */
    LOOKED_AT = 128, /* of each row */
};

/* The letters beside a component that are in the row of its upper or of its lower half. */
struct beside {
    int bottoms[LOOKED_AT];
    int count, before, behind;
    int top, tallest; /* of all */
};

static void count_letter(struct beside *row, const struct cv_box *letter, const struct cv_box *box)
{
    if (row->count == LOOKED_AT) {
        return;
    }
    row->top = row->count ? cv_min(row->top, letter->y) : letter->y;
    row->tallest = cv_max(row->tallest, letter->height);
    row->bottoms[row->count++] = cv_box_bottom(letter);
    row->before += letter->x < box->x;
    row->behind += letter->x > box->x;
}

/* Where the letters of a row stand; -1 where they stand at different heights, as what is not in a row does. */
static int baseline_of(struct beside *row)
{
    int level = 0;

    if (row->count < BESIDE_MIN || !row->before || !row->behind) {
        return -1;
    }
    qsort(row->bottoms, (size_t)row->count, sizeof(*row->bottoms), cv_compare_ints);
    int baseline = row->bottoms[row->count / 2];
    for (int i = 0; i < row->count; i++) {
        level += abs(row->bottoms[i] - baseline) * 8 <= row->tallest;
    }
    return level >= BESIDE_MIN && level * 2 >= row->count ? baseline : -1;
}

/* The row of pixels that the lower row begins in; 0 where a component is not two rows high. */
static int cut_of(const struct cv_components *components, size_t index)
{
    const struct cv_component *items = components->items;
    const struct cv_box *box = &items[index].box;
    struct beside upper = {.count = 0}, lower = {.count = 0};
    int middle = box->y + box->height / 2, reach = NEAR * box->height;
    size_t from = index;

    while (from > 0 && box->x - items[from - 1].box.x <= reach) {
        from--;
    }
    for (size_t i = from; i < components->count && items[i].box.x - cv_box_right(box) <= reach;
         i++) {
        const struct cv_box *letter = &items[i].box;
        if (items[i].is_light != items[index].is_light || letter->height * 4 < box->height ||
            letter->height * 3 > box->height * 2) {
            continue;
        }
        int above = letter->y + letter->height / 2 - middle;
        if (above < 0 && cv_box_bottom(letter) > box->y) {
            count_letter(&upper, letter, box);
        } else if (above > 0 && letter->y < cv_box_bottom(box)) {
            count_letter(&lower, letter, box);
        }
    }
    int first = baseline_of(&upper), second = baseline_of(&lower);
    int tall = cv_max(upper.tallest, lower.tallest);
    bool are_rows = first > 0 && second > 0 && second - first >= tall &&
                    first - box->y >= tall / 2 && abs(second - cv_box_bottom(box)) * 2 <= tall;
    bool is_letter = box->width * 3 >= tall && box->width * 5 <= tall * 6;
    int cut = cv_max(first, lower.top);
    return are_rows && is_letter && cut < second ? cut : 0;
}

int cv_touching_rows_cut(struct cv_components *components, struct cv_error *error)
{
    size_t count = components->count, added = 0;
    cv_auto_free int *cuts = calloc(count + 1, sizeof(*cuts));

    CV_TRY_MEMORY(cuts, error, "components");
    for (size_t i = 0; i < count; i++) {
        const struct cv_component *item = &components->items[i];
        bool is_tall = item->box.height >= 3 * CV_GLYPH_HEIGHT_MIN &&
                       item->box.width * 10 <= item->box.height * 9 && !item->is_picture;
        cuts[i] = is_tall ? cut_of(components, i) : 0;
        added += cuts[i] > 0;
    }
    if (!added) {
        return 0;
    }
    void *grown = realloc(components->items, (count + added) * sizeof(*components->items));
    CV_TRY_MEMORY(grown, error, "components");
    components->items = grown;
    for (size_t i = 0; i < count; i++) {
        struct cv_component *item = &components->items[i];
        if (cuts[i]) {
            struct cv_component below = *item;
            item->box.height = cuts[i] - item->box.y;
            below.box.height -= item->box.height;
            below.box.y = cuts[i];
            components->items[components->count++] = below;
        }
    }
    cv_components_sort(components);
    return 0;
}
