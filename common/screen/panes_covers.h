/* What stands still over a pane and hides its content, told from where content moved and where it stayed. */
#pragma once

#include "common/screen/panes.h"

enum { CV_PANE_CELL = 8 }; /* pixels side by side that are one cell; a cell is one row high */

static inline int cv_pane_cells_across(int width)
{
    return width / CV_PANE_CELL;
}

/* Gives `pane` the rectangles of what hides content within its rows and columns. `width`: of the frame. */
CV_MUST_CHECK int cv_covers_find(struct cv_pane *pane, const struct cv_pane_cells *cells, int width,
                                 struct cv_error *error);
