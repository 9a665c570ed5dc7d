/* Ink on a picture: letters that are lighter or darker than whatever is behind them, or the fill of an outline. */
#pragma once

#include "common/screen/ink.h"

/* Measures the ink in `box`. `ink->light` says which side it is on; kind, by_luma, low, high and clarity are set. Returns
 * whether it is the fill of outlined letters. */
bool cv_ink_measure_on_picture(const struct cv_frame *frame, const struct cv_box *box,
                               struct cv_ink *ink);
