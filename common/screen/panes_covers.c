#include "common/screen/panes_covers.h"

#include <string.h>

enum {
    REACH_ROWS = 6,  /* between two parts of one cover: a flat one shows where ink should come */
    REACH_CELLS = 2, /* … and sideways */
    PROOF_MIN = 64,  /* pixels that stayed; less is noise, or a mark that was left behind */
    MOVED_SHARE = 3, /* 1/3 of the pixels that stayed may have moved */
    HEIGHT_MIN = 8,  /* rows */
    SLAB_ROWS = 4,   /* a round cover is laid out in rectangles of so many rows */
    SLABS_MAX = 16,  /* … of one cover: tall ones are laid out in higher rectangles */
};

/* One cover while it is put together. */
struct cover {
    struct cv_box box; /* in cells */
    int64_t stayed;    /* pixels */
};

struct search {
    const struct cv_pane *pane;
    const struct cv_pane_cells *cells;
    int across;
    uint8_t *seen; /* cells that belong to a cover already: 1 found, 2 being looked at, 3 done */
    uint32_t *stack;
    size_t depth, room;
};

static size_t cell_at(const struct search *search, int column, int row)
{
    return (size_t)row * (size_t)search->across + (size_t)column;
}

/* At a cover's rim content moves in the other part of the cell. */
static bool is_hiding(const struct search *search, size_t cell)
{
    int moved = search->cells->moved[cell], stayed = search->cells->stayed[cell];
    return stayed >= 2 && 2 * stayed > moved;
}

static void push(struct search *search, int column, int row)
{
    size_t cell = cell_at(search, column, row);

    if (!search->seen[cell] && is_hiding(search, cell) && search->depth < search->room) {
        search->seen[cell] = 1;
        search->stack[search->depth++] = (uint32_t)cell;
    }
}

static void add_cell(struct cover *cover, int column, int row)
{
    struct cv_box cell = {column, row, 1, 1};

    cover->box = cover->box.width ? cv_box_union(&cover->box, &cell) : cell;
}

/* All cells that hang together with the one at column, row. */
static struct cover collect(struct search *search, int column, int row)
{
    const struct cv_pane *pane = search->pane;
    struct cover cover = {0};

    push(search, column, row);
    while (search->depth > 0) {
        uint32_t cell = search->stack[--search->depth];
        int x = (int)(cell % (uint32_t)search->across), y = (int)(cell / (uint32_t)search->across);
        add_cell(&cover, x, y);
        cover.stayed += search->cells->stayed[cell];
        for (int v = cv_max(y - REACH_ROWS, pane->top);
             v <= cv_min(y + REACH_ROWS, pane->bottom - 1); v++) {
            for (int u = cv_max(x - REACH_CELLS, 0);
                 u <= cv_min(x + REACH_CELLS, search->across - 1); u++) {
                push(search, u, v);
            }
        }
    }
    return cover;
}

/* One slab of a cover, in cells; left >= right: nothing was seen of it. */
struct slab {
    int left, right;
};

static struct slab slab_of(const struct search *search, const struct cover *cover, int from, int to)
{
    struct slab slab = {cv_box_right(&cover->box), cover->box.x};

    for (int y = from; y < to; y++) {
        for (int x = cover->box.x; x < cv_box_right(&cover->box); x++) {
            if (search->seen[cell_at(search, x, y)] == 2) {
                slab.left = cv_min(slab.left, x);
                slab.right = cv_max(slab.right, x + 1);
            }
        }
    }
    return slab;
}

/* What lies between two parts of a cover belongs to it. */
static void fill(struct slab *slabs, int count)
{
    struct slab above[SLABS_MAX + 1], below = slabs[count - 1];

    above[0] = slabs[0];
    for (int i = 1; i < count; i++) {
        above[i].left = cv_min(above[i - 1].left, slabs[i].left);
        above[i].right = cv_max(above[i - 1].right, slabs[i].right);
    }
    for (int i = count - 1; i >= 0; i--) {
        below.left = cv_min(below.left, slabs[i].left);
        below.right = cv_max(below.right, slabs[i].right);
        slabs[i].left = cv_max(above[i].left, below.left);
        slabs[i].right = cv_min(above[i].right, below.right);
    }
}

/* Marks the cover's cells as those of the cover at hand, or as done. */
static void mark(const struct search *search, const struct cover *cover, uint8_t from, uint8_t to)
{
    for (int y = cover->box.y; y < cv_box_bottom(&cover->box); y++) {
        for (int x = cover->box.x; x < cv_box_right(&cover->box); x++) {
            uint8_t *seen = &search->seen[cell_at(search, x, y)];
            *seen = *seen == from ? to : *seen;
        }
    }
}

/* A cover laid out in slabs of `rows` rows, from its top on. */
struct layout {
    struct slab slabs[SLABS_MAX + 1];
    int count, rows;
};

static struct layout lay_out(const struct search *search, const struct cover *cover)
{
    int rows = cv_max(SLAB_ROWS, (cover->box.height + SLABS_MAX - 1) / SLABS_MAX);
    struct layout layout = {.rows = rows};
    int bottom = cv_box_bottom(&cover->box);

    for (int y = cover->box.y; y < bottom; y += rows) {
        layout.slabs[layout.count++] = slab_of(search, cover, y, cv_min(y + rows, bottom));
    }
    fill(layout.slabs, layout.count);
    return layout;
}

/* Pixels that moved inside of a cover, away from its rim. Where one shift makes the cover look like
 * content that stayed elsewhere, other shifts move content there. */
static int64_t moved_within(const struct search *search, const struct cover *cover,
                            const struct layout *layout)
{
    int64_t moved = 0;

    for (int y = cover->box.y; y < cv_box_bottom(&cover->box); y++) {
        const struct slab *slab = &layout->slabs[(y - cover->box.y) / layout->rows];
        for (int x = slab->left + 1; x < slab->right - 1; x++) {
            moved += search->cells->moved[cell_at(search, x, y)];
        }
    }
    return moved;
}

static size_t copy_out(const struct cover *cover, const struct layout *layout,
                       struct cv_box *covers, size_t room)
{
    size_t count = 0;

    for (int i = 0; i < layout->count && count < room; i++) {
        const struct slab *slab = &layout->slabs[i];
        int y = cover->box.y + i * layout->rows;
        if (slab->right > slab->left) {
            covers[count++] = (struct cv_box){slab->left * CV_PANE_CELL, y,
                                              (slab->right - slab->left) * CV_PANE_CELL,
                                              cv_min(layout->rows, cv_box_bottom(&cover->box) - y)};
        }
    }
    return count;
}

static size_t find_covers(struct search *search, struct cv_box *covers)
{
    const struct cv_pane *pane = search->pane;
    size_t count = 0;

    for (int y = pane->top; y < pane->bottom && count < CV_COVERS_MAX; y++) {
        for (int x = pane->left / CV_PANE_CELL;
             x < search->across && x * CV_PANE_CELL < pane->right; x++) {
            size_t cell = cell_at(search, x, y);
            if (search->seen[cell] || !is_hiding(search, cell)) {
                continue;
            }
            struct cover cover = collect(search, x, y);
            mark(search, &cover, 1, 2);
            struct layout layout = lay_out(search, &cover);
            int64_t moved = moved_within(search, &cover, &layout);
            if (cover.stayed >= PROOF_MIN && moved * MOVED_SHARE < cover.stayed &&
                cover.box.height >= HEIGHT_MIN) {
                count += copy_out(&cover, &layout, covers + count, CV_COVERS_MAX - count);
            }
            mark(search, &cover, 2, 3);
        }
    }
    return count;
}

int cv_covers_find(struct cv_pane *pane, const struct cv_pane_cells *evidence, int width,
                   struct cv_error *error)
{
    struct cv_box found[CV_COVERS_MAX];
    int across = cv_pane_cells_across(width);
    size_t cells = (size_t)across * (size_t)cv_max(pane->bottom, 1);
    cv_auto_free uint8_t *seen = calloc(cells + 1, 1);
    cv_auto_free uint32_t *stack = malloc((cells + 1) * sizeof(*stack));

    CV_TRY_MEMORY(seen && stack, error, "what lies over a page");
    struct search search = {pane, evidence, across, seen, stack, 0, cells};
    size_t count = find_covers(&search, found);
    if (count > 0) {
        pane->covers = malloc(count * sizeof(*pane->covers));
        CV_TRY_MEMORY(pane->covers, error, "what lies over a page");
        memcpy(pane->covers, found, count * sizeof(*pane->covers));
    }
    pane->cover_count = count;
    return 0;
}
