/* What stands still over a pane and hides its content, told from where content moved and where it stayed. */
#pragma once

#include "common/screen/panes.h"

enum { OCR_CELL = 8 }; /* pixels side by side that are one cell; a cell is one row high */

static inline int ocr_cells_across(int width)
{
    return width / OCR_CELL;
}

static inline size_t ocr_cells_count(int width, int height)
{
    return (size_t)ocr_cells_across(width) * (size_t)height;
}

/* What a cell's pixels say together. */
static inline bool ocr_cell_moves(uint8_t moved, uint8_t stayed)
{
    return moved >= 2 && moved > 2 * stayed;
}

static inline bool ocr_cell_stays(uint8_t moved, uint8_t stayed)
{
    return stayed >= 2 && stayed > 4 * moved;
}

/* Gives `pane` the rectangles of what hides content within its rows and columns. `width`: of the frame. */
CV_MUST_CHECK int ocr_covers_find(struct ocr_pane *pane, const struct ocr_cells *cells, int width,
                                  struct cv_error *error);
