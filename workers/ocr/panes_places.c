#include "workers/ocr/panes_evidence.h"

/* Pixels: what ends in the same cell as a cover begins in need not be covered. */
enum { COVER_OVERLAP = OCR_CELL / 2 };

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

bool ocr_panes_move(const struct ocr_panes *panes, int pane, const struct ocr_box *box)
{
    return ocr_pane_holds(ocr_panes_get(panes, pane), box);
}
