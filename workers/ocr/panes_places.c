#include "workers/ocr/panes_evidence.h"

#include <string.h>

/* Pixels: what ends in the same cell as a cover begins in need not be covered. */
enum { COVER_OVERLAP = OCR_CELL / 2 };

/* As many pixels of a cell as outweigh what a few steps take for something that stays. */
enum { SEEN_MOVED = 64 };

int ocr_panes_at(const struct ocr_panes *panes, size_t frame)
{
    return frame < panes->step_count ? panes->steps[frame] : OCR_NO_PANE;
}

int ocr_panes_near(const struct ocr_panes *panes, size_t frame)
{
    return frame < panes->step_count ? panes->near[frame] : OCR_NO_PANE;
}

const struct ocr_pane *ocr_panes_get(const struct ocr_panes *panes, int pane)
{
    bool is_one = pane >= 0 && pane < panes->count;
    return is_one && ocr_pane_known(&panes->items[pane]) ? &panes->items[pane] : NULL;
}

bool ocr_pane_holds(const struct ocr_pane *pane, const struct ocr_box *box)
{
    int x = box->x + box->width / 2, y = box->y + box->height / 2;
    return ocr_pane_known(pane) && y >= pane->top && y < pane->bottom &&
           x >= pane->left - OCR_CELL && x < pane->right + OCR_CELL;
}

bool ocr_pane_covers(const struct ocr_pane *pane, const struct ocr_box *box)
{
    for (size_t i = 0; pane && i < pane->cover_count; i++) {
        const struct ocr_box *cover = &pane->covers[i];
        bool rows = box->y < ocr_bottom(cover) && ocr_bottom(box) > cover->y;
        bool columns =
            box->x + COVER_OVERLAP < ocr_right(cover) && ocr_right(box) - COVER_OVERLAP > cover->x;
        if (rows && columns) {
            return true;
        }
    }
    return false;
}

void ocr_places_note(struct ocr_places *places, int pane, bool moves)
{
    int at = 0;

    while (at < places->count && places->notes[at].pane != pane) {
        at++;
    }
    if (at == OCR_PLACES_MAX) {
        memmove(&places->notes[0], &places->notes[1],
                (OCR_PLACES_MAX - 1) * sizeof(places->notes[0]));
        at--;
    }
    places->notes[at].pane = pane;
    places->notes[at].moves = moves;
    places->count = ocr_max(places->count, at + 1);
}

enum ocr_place ocr_places_in(const struct ocr_places *places, int pane)
{
    for (int i = 0; i < places->count; i++) {
        if (places->notes[i].pane == pane) {
            return places->notes[i].moves ? OCR_PLACE_MOVES : OCR_PLACE_FIXED;
        }
    }
    return OCR_PLACE_UNKNOWN;
}

bool ocr_panes_move(const struct ocr_panes *panes, int pane, const struct ocr_places *places,
                    const struct ocr_box *box)
{
    enum ocr_place place = ocr_places_in(places, pane);

    return pane >= 0 &&
           (place == OCR_PLACE_MOVES ||
            (place == OCR_PLACE_UNKNOWN && ocr_pane_holds(ocr_panes_get(panes, pane), box)));
}

/* Nothing lies over what was seen whole. */
static void uncover(const struct ocr_panes *panes, const struct ocr_pane_evidence *live,
                    const struct ocr_box *box)
{
    struct ocr_box seen = ocr_box_clip(box, panes->width, panes->height);
    int across = ocr_cells_across(panes->width);
    int left = (seen.x + OCR_CELL - 1) / OCR_CELL;
    int right = ocr_min(ocr_right(&seen) / OCR_CELL, across);

    for (int y = seen.y; y < ocr_bottom(&seen); y++) {
        for (int x = left; x < right; x++) {
            uint8_t *moved = &live->cells.moved[(size_t)y * (size_t)across + (size_t)x];
            *moved = (uint8_t)ocr_max(*moved, SEEN_MOVED);
        }
    }
}

void ocr_panes_saw(struct ocr_panes *panes, const struct ocr_places *places,
                   const struct ocr_box *box)
{
    if (panes->current < 0 || ocr_places_in(places, panes->current) != OCR_PLACE_MOVES) {
        return;
    }
    struct ocr_pane *pane = &panes->items[panes->current];
    if (ocr_pane_known(pane) && pane->top_cuts == 0) {
        pane->top = ocr_min(pane->top, ocr_max(box->y, 0));
    }
    if (ocr_pane_known(pane) && pane->bottom_cuts == 0) {
        pane->bottom = ocr_max(pane->bottom, ocr_min(ocr_bottom(box), panes->height));
    }
    for (int i = 0; i < OCR_PANES_LIVE; i++) {
        if (panes->live[i].cells.moved && panes->live[i].pane == panes->current) {
            uncover(panes, &panes->live[i], box);
        }
    }
}
