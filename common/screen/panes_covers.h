/* What stands still over a pane and hides its content, told from where content moved and where it stayed. */
#pragma once

#include "common/screen/panes.h"

enum { OCR_CELL = 8 }; /* pixels side by side that are one cell; a cell is one row high */

static inline int ocr_cells_across(int width)
{
    return width / OCR_CELL;
}

/* Gives `pane` the rectangles of what hides content within its rows and columns. `width`: of the frame. */
CV_MUST_CHECK int ocr_covers_find(struct ocr_pane *pane, const struct ocr_cells *cells, int width,
                                  struct cv_error *error);
