#include "common/screen/panes.h"

#include "common/screen/panes_covers.h"

#include <simde/x86/sse2.h>
#include <string.h>

enum {
    NEIGHBOURS = 4,     /* rows beside a moved one of which half must have moved too */
    CONFLICT_SHARE = 8, /* 1/8 of what a step moved may be at odds with a pane */
    COUNTS_MAX = 240,   /* of a cell, before both counts are halved */
    PIXEL_CHANGED = 40, /* levels: ink became paper, or other content */
    PIXEL_SAME = 24,    /* levels; codec noise stays below */
};

static size_t cells_count(int width, int height)
{
    return (size_t)cv_pane_cells_across(width) * (size_t)height;
}

/* What a cell's pixels say together. */
static bool cell_moves(uint8_t moved, uint8_t stayed)
{
    return moved >= 2 && moved > 2 * stayed;
}

static bool cell_stays(uint8_t moved, uint8_t stayed)
{
    return stayed >= 2 && stayed > 4 * moved;
}

/* ---- what two frames prove -------------------------------------------------------------------- */

/* The rows of pixels that one row of cells is judged by; those at the left end of a cell's pixels. */
struct cell_rows {
    const uint8_t *before, *after;
    const uint8_t *before_below, *after_below;   /* a row further down */
    const uint8_t *source_before, *source_after; /* where its content should have come from */
};

static inline int apart(uint8_t a, uint8_t b)
{
    return a > b ? a - b : b - a;
}

/* What the pixels of one cell prove. */
struct proof {
    uint8_t came, left, stayed;
};

/* Written for a compiler that takes eight pixels at once. */
static inline struct proof judge(const struct cell_rows *rows)
{
    int came = 0, left = 0, stayed = 0;

    for (int i = 0; i < CV_PANE_CELL; i++) {
        int here = apart(rows->before[i], rows->after[i]);
        int there = apart(rows->source_before[i], rows->after[i]);
        int gone = apart(rows->source_before[i], rows->source_after[i]) >= PIXEL_CHANGED;
        /* an edge, whose other side stays, too */
        int beside = (apart(rows->before[i], rows->before[i + 1]) >= PIXEL_CHANGED) &
                     (apart(rows->before[i + 1], rows->after[i + 1]) < PIXEL_SAME);
        int under = (apart(rows->before[i], rows->before_below[i]) >= PIXEL_CHANGED) &
                    (apart(rows->before_below[i], rows->after_below[i]) < PIXEL_SAME);
        int still = (here < PIXEL_SAME) & (there >= PIXEL_CHANGED);
        came += (here >= PIXEL_CHANGED) & (there < PIXEL_SAME);
        left += gone & (there < PIXEL_SAME);
        /* paper that stays proves nothing unless something should have come there */
        stayed += still & (gone | beside | under);
    }
    return (struct proof){(uint8_t)came, (uint8_t)left, (uint8_t)stayed};
}

/* Nothing in the cell is far from what was there, nor from what should have come: most of a page is
 * paper. */
static inline bool proves_nothing(const struct cell_rows *rows)
{
    __m128i now = _mm_loadl_epi64((const __m128i *)rows->after);
    __m128i then = _mm_loadl_epi64((const __m128i *)rows->before);
    __m128i came = _mm_loadl_epi64((const __m128i *)rows->source_before);
    __m128i both = _mm_unpacklo_epi64(then, came);
    __m128i sums = _mm_sad_epu8(_mm_unpacklo_epi64(now, now), both);
    return _mm_cvtsi128_si32(sums) < PIXEL_CHANGED && _mm_extract_epi16(sums, 4) < PIXEL_CHANGED;
}

/* Content that left its place and is found where it went to was seen to move there, too. */
static void mark_source(uint8_t *moved_row, int across, int x, uint8_t pixels)
{
    int cell = x / CV_PANE_CELL, over = x % CV_PANE_CELL;
    int next = cell + 1 < across ? pixels * over / CV_PANE_CELL : 0;

    moved_row[cell] = (uint8_t)cv_min(moved_row[cell] + pixels - next, CV_PANE_CELL);
    if (next > 0) {
        moved_row[cell + 1] = (uint8_t)cv_min(moved_row[cell + 1] + next, CV_PANE_CELL);
    }
}

/* Fills `cells` with what two frames prove, of which the second shows content moved by dx, dy. */
static void find_evidence(const struct cv_frame *before, const struct cv_frame *after, int dx,
                          int dy, const struct cv_pane_cells *cells)
{
    int width = before->width, height = before->height, across = cv_pane_cells_across(width);
    int first = dx > 0 ? (dx + CV_PANE_CELL - 1) / CV_PANE_CELL : 0;
    int end = cv_min(across, (width - 1 + cv_min(dx, 0)) / CV_PANE_CELL);
    const uint8_t *old = before->plane[CV_LUMA], *new = after->plane[CV_LUMA];

    memset(cells->moved, 0, 2 * cells_count(width, height));
    for (int y = cv_max(dy, 0); y < height + cv_min(dy, 0); y++) {
        size_t here = (size_t)y * (size_t)width, source = (size_t)(y - dy) * (size_t)width;
        size_t row = (size_t)y * (size_t)across, source_row = (size_t)(y - dy) * (size_t)across;
        size_t below = y + 1 < height ? here + (size_t)width : here;
        for (int cell = first; cell < end; cell++) {
            int x = cell * CV_PANE_CELL, from = x - dx;
            struct cell_rows rows = {old + here + x,  new + here + x,      old + below + x,
                                     new + below + x, old + source + from, new + source + from};
            if (proves_nothing(&rows)) {
                continue;
            }
            struct proof proof = judge(&rows);
            uint8_t *moved = &cells->moved[row + (size_t)cell];
            *moved = (uint8_t)cv_min(*moved + proof.came, CV_PANE_CELL);
            cells->stayed[row + (size_t)cell] = proof.stayed;
            if (proof.left > 0) {
                mark_source(cells->moved + source_row, across, from, proof.left);
            }
        }
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

void cv_panes_deinit(struct cv_panes *panes)
{
    for (int i = 0; i < panes->count; i++) {
        free(panes->items[i].covers);
    }
    free(panes->items);
    free(panes->steps);
    free(panes->near);
    for (int i = 0; i < CV_PANES_LIVE; i++) {
        free(panes->live[i].cells.moved);
    }
    free(panes->step.moved);
    *panes = (struct cv_panes){0};
}

static int record_step(struct cv_panes *panes, int pane, struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(panes->steps, panes->step_count) &&
                      CV_MAKE_ROOM(panes->near, panes->step_count),
                  error, "frames");
    panes->near[panes->step_count] = CV_NO_PANE;
    panes->steps[panes->step_count++] = pane;
    return 0;
}

static int add_pane(struct cv_panes *panes, struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(panes->items, (size_t)panes->count), error, "panes");
    panes->items[panes->count++] = (struct cv_pane){0};
    return 0;
}

static int new_cells(int width, int height, struct cv_pane_cells *ret_cells, struct cv_error *error)
{
    size_t count = cells_count(width, height);
    uint8_t *memory = calloc(2 * count + 1, 1);

    CV_TRY_MEMORY(memory, error, "following what moves");
    *ret_cells = (struct cv_pane_cells){memory, memory + count};
    return 0;
}

/* ---- the end of a scene ---------------------------------------------------------------------- */

static int settle(struct cv_panes *panes, struct cv_pane_evidence *live, struct cv_error *error)
{
    if (live->pane == CV_NO_PANE) {
        return 0;
    }
    struct cv_pane *pane = &panes->items[live->pane];
    live->pane = CV_NO_PANE;
    return cv_pane_known(pane) ? cv_covers_find(pane, &live->cells, panes->width, error) : 0;
}

/* Records for each frame of the scene which pane moved last, or, if none has moved yet, which one
 * moves first. */
static void fill_near(struct cv_panes *panes)
{
    int first = CV_NO_PANE;

    for (size_t i = panes->step_count; i-- > panes->scene_first;) {
        first = panes->steps[i] >= 0 ? panes->steps[i] : first;
    }
    for (size_t i = panes->scene_first; i < panes->step_count; i++) {
        first = panes->steps[i] >= 0 ? panes->steps[i] : first;
        panes->near[i] = first;
    }
    panes->scene_first = panes->step_count;
}

static int settle_all(struct cv_panes *panes, struct cv_error *error)
{
    for (int i = 0; i < CV_PANES_LIVE; i++) {
        if (panes->live[i].cells.moved) {
            CV_TRY(settle(panes, &panes->live[i], error));
        }
    }
    panes->current = CV_NO_PANE;
    return 0;
}

int cv_panes_finish(struct cv_panes *panes, struct cv_error *error)
{
    fill_near(panes);
    return settle_all(panes, error);
}

int cv_panes_scene(struct cv_panes *panes, struct cv_error *error)
{
    CV_TRY(cv_panes_finish(panes, error));
    return record_step(panes, CV_SCENE_BEGINS, error);
}

/* ---- one step -------------------------------------------------------------------------------- */

/* Memory for frames of that size. */
static int resize(struct cv_panes *panes, int width, int height, struct cv_error *error)
{
    if (panes->step.moved && panes->width == width && panes->height == height) {
        return 0;
    }
    CV_TRY(settle_all(panes, error));
    for (int i = 0; i < CV_PANES_LIVE; i++) {
        free(panes->live[i].cells.moved);
        panes->live[i] = (struct cv_pane_evidence){.pane = CV_NO_PANE};
    }
    free(panes->step.moved);
    panes->step = (struct cv_pane_cells){0};
    panes->width = width;
    panes->height = height;
    return new_cells(width, height, &panes->step, error);
}

/* The first cell from `from` on of which a step proves anything: few do, and eight are skipped at a
 * time. */
static size_t next_cell(const struct cv_pane_cells *step, size_t from, size_t count)
{
    size_t i = from;

    while (i < count && !step->moved[i] && !step->stayed[i]) {
        uint64_t moved = 0, stayed = 0;
        if (i + sizeof(moved) <= count) {
            memcpy(&moved, step->moved + i, sizeof(moved));
            memcpy(&stayed, step->stayed + i, sizeof(stayed));
            i += moved | stayed ? 1 : sizeof(moved);
        } else {
            i++;
        }
    }
    return i;
}

/* Cells in which the step is at odds with what is known of a pane; *ret_moved: those that moved. */
static int64_t conflicts(const struct cv_panes *panes, const struct cv_pane_evidence *live,
                         int64_t *ret_moved)
{
    const struct cv_pane_cells *step = &panes->step, *known = &live->cells;
    size_t cells = cells_count(panes->width, panes->height);
    int64_t count = 0, moved = 0;

    for (size_t i = next_cell(&panes->step, 0, cells); i < cells;
         i = next_cell(&panes->step, i + 1, cells)) {
        bool moves = cell_moves(step->moved[i], step->stayed[i]);
        bool stays = cell_stays(step->moved[i], step->stayed[i]);
        moved += moves;
        count += (moves && cell_stays(known->moved[i], known->stayed[i])) ||
                 (stays && cell_moves(known->moved[i], known->stayed[i]));
    }
    *ret_moved = moved;
    return count;
}

/* The pane that agrees with the step, of several the one that agrees most. */
static struct cv_pane_evidence *find_pane(struct cv_panes *panes)
{
    struct cv_pane_evidence *found = NULL;
    int64_t least = 0;

    for (int i = 0; i < CV_PANES_LIVE; i++) {
        struct cv_pane_evidence *live = &panes->live[i];
        int64_t moved = 0;
        if (live->pane == CV_NO_PANE) {
            continue;
        }
        int64_t odds = conflicts(panes, live, &moved);
        bool better = !found || odds < least || (odds == least && live->pane == panes->current);
        if (odds * CONFLICT_SHARE <= moved && better) {
            found = live;
            least = odds;
        }
    }
    return found;
}

/* Room for another pane. */
static int begin_pane(struct cv_panes *panes, struct cv_pane_evidence **ret_live,
                      struct cv_error *error)
{
    struct cv_pane_evidence *live = &panes->live[0];

    for (int i = 1; i < CV_PANES_LIVE && live->pane != CV_NO_PANE; i++) {
        struct cv_pane_evidence *other = &panes->live[i];
        if (other->pane == CV_NO_PANE || other->last_step < live->last_step) {
            live = other;
        }
    }
    if (live->cells.moved) {
        CV_TRY(settle(panes, live, error));
    }
    CV_TRY(add_pane(panes, error));
    if (!live->cells.moved) {
        CV_TRY(new_cells(panes->width, panes->height, &live->cells, error));
    }
    memset(live->cells.moved, 0, 2 * cells_count(panes->width, panes->height));
    live->pane = panes->count - 1;
    *ret_live = live;
    return 0;
}

static void add_evidence(const struct cv_panes *panes, struct cv_pane_evidence *live)
{
    size_t cells = cells_count(panes->width, panes->height);

    for (size_t i = next_cell(&panes->step, 0, cells); i < cells;
         i = next_cell(&panes->step, i + 1, cells)) {
        int moved = live->cells.moved[i] + panes->step.moved[i];
        int stayed = live->cells.stayed[i] + panes->step.stayed[i];
        int halve = moved > COUNTS_MAX || stayed > COUNTS_MAX;
        live->cells.moved[i] = (uint8_t)(moved >> halve);
        live->cells.stayed[i] = (uint8_t)(stayed >> halve);
    }
}

/* The columns of cells that moved in a row: right is 0 when none did. */
struct reach {
    int left, right;
};

/* Rows that moved in company: a lone one is a coincidence. */
static bool has_company(const struct reach *moved, int y, int height)
{
    int near = 0;

    for (int k = cv_max(y - NEIGHBOURS, 0); k <= cv_min(y + NEIGHBOURS, height - 1); k++) {
        near += moved[k].right > 0;
    }
    return moved[y].right > 0 && near > NEIGHBOURS / 2;
}

/* First and last of the rows that moved; false when none did. */
static bool range_of(const struct reach *moved, int count, int *ret_first, int *ret_end)
{
    int first = 0, end = count;

    while (first < count && !has_company(moved, first, count)) {
        first++;
    }
    while (end > first && !has_company(moved, end - 1, count)) {
        end--;
    }
    *ret_first = first;
    *ret_end = end;
    return end > first;
}

/* Widens the pane by what moved. */
static int widen(const struct cv_panes *panes, const struct cv_pane_evidence *live,
                 struct cv_error *error)
{
    int across = cv_pane_cells_across(panes->width), height = panes->height, top, bottom;
    size_t cells = cells_count(panes->width, panes->height);
    const struct cv_pane_cells *step = &panes->step;
    cv_auto_free struct reach *rows = calloc((size_t)height, sizeof(*rows));
    struct cv_pane *pane = &panes->items[live->pane];
    int left = across, right = 0;

    CV_TRY_MEMORY(rows, error, "following what moves");
    for (size_t i = next_cell(step, 0, cells); i < cells; i = next_cell(step, i + 1, cells)) {
        if (cell_moves(step->moved[i], step->stayed[i])) {
            struct reach *row = &rows[i / (size_t)across];
            int column = (int)(i % (size_t)across);
            row->left = row->right ? row->left : column;
            row->right = column + 1;
        }
    }
    if (!range_of(rows, height, &top, &bottom)) {
        return 0;
    }
    for (int y = top; y < bottom; y++) {
        left = rows[y].right ? cv_min(left, rows[y].left) : left;
        right = cv_max(right, rows[y].right);
    }
    if (!cv_pane_known(pane)) {
        *pane = (struct cv_pane){.top = top,
                                 .bottom = bottom,
                                 .left = left * CV_PANE_CELL,
                                 .right = right * CV_PANE_CELL};
    }
    /* What cut lines at a nearer edge was something else. */
    pane->top_cuts = top < pane->top - 3 ? 0 : pane->top_cuts;
    pane->bottom_cuts = bottom > pane->bottom + 3 ? 0 : pane->bottom_cuts;
    pane->top = cv_min(pane->top, top);
    pane->bottom = cv_max(pane->bottom, bottom);
    pane->left = cv_min(pane->left, left * CV_PANE_CELL);
    pane->right = cv_max(pane->right, right * CV_PANE_CELL);
    return 0;
}

int cv_panes_step(struct cv_panes *panes, const struct cv_frame *before,
                  const struct cv_frame *after, struct cv_point shift, struct cv_error *error)
{
    bool comparable = before->width == after->width && before->height == after->height &&
                      abs(shift.x) < before->width - 2 * CV_PANE_CELL &&
                      abs(shift.y) < before->height;

    if (!comparable || (!shift.x && !shift.y)) {
        return record_step(panes, CV_NO_PANE, error);
    }
    CV_TRY(resize(panes, before->width, before->height, error));
    find_evidence(before, after, shift.x, shift.y, &panes->step);
    struct cv_pane_evidence *live = find_pane(panes);
    CV_TRY(live ? 0 : begin_pane(panes, &live, error));
    CV_TRY(widen(panes, live, error));
    CV_TRY(record_step(panes, live->pane, error));
    add_evidence(panes, live);
    live->last_step = (int64_t)panes->step_count;
    panes->current = live->pane;
    return 0;
}

/* ---- questions about panes -------------------------------------------------------------------- */

/* Pixels: what ends in the same cell as a cover begins in need not be covered. */
enum { COVER_OVERLAP = CV_PANE_CELL / 2 };

int cv_panes_at(const struct cv_panes *panes, size_t frame)
{
    return frame < panes->step_count ? panes->steps[frame] : CV_NO_PANE;
}

int cv_panes_near(const struct cv_panes *panes, size_t frame)
{
    return frame < panes->step_count ? panes->near[frame] : CV_NO_PANE;
}

const struct cv_pane *cv_panes_get(const struct cv_panes *panes, int pane)
{
    bool is_one = pane >= 0 && pane < panes->count;
    return is_one && cv_pane_known(&panes->items[pane]) ? &panes->items[pane] : NULL;
}

/* Whether the middle of a box lies in the pane. */
static bool holds(const struct cv_pane *pane, const struct cv_box *box)
{
    int x = box->x + box->width / 2, y = box->y + box->height / 2;
    return cv_pane_known(pane) && y >= pane->top && y < pane->bottom &&
           x >= pane->left - CV_PANE_CELL && x < pane->right + CV_PANE_CELL;
}

bool cv_pane_covers(const struct cv_pane *pane, const struct cv_box *box)
{
    for (size_t i = 0; pane && i < pane->cover_count; i++) {
        const struct cv_box *cover = &pane->covers[i];
        bool rows = box->y < cv_box_bottom(cover) && cv_box_bottom(box) > cover->y;
        bool columns = box->x + COVER_OVERLAP < cv_box_right(cover) &&
                       cv_box_right(box) - COVER_OVERLAP > cover->x;
        if (rows && columns) {
            return true;
        }
    }
    return false;
}

void cv_places_count(struct cv_places *places, int pane, bool moves)
{
    int at = 0;

    while (at < places->count && places->notes[at].pane != pane) {
        at++;
    }
    if (at == CV_PLACES_MAX) {
        memmove(&places->notes[0], &places->notes[1],
                (CV_PLACES_MAX - 1) * sizeof(places->notes[0]));
        at--;
    }
    places->notes[at].pane = pane;
    places->notes[at].moves = moves;
    places->count = cv_max(places->count, at + 1);
}

bool cv_panes_move(const struct cv_panes *panes, int pane, const struct cv_places *places,
                   const struct cv_box *box)
{
    for (int i = 0; i < places->count; i++) {
        if (places->notes[i].pane == pane) {
            return places->notes[i].moves;
        }
    }
    return pane >= 0 && holds(cv_panes_get(panes, pane), box);
}
