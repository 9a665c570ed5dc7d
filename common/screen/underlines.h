/* Removes the rules under text before ink is looked for. */
#pragma once

#include "common/screen/threshold.h"

/* Paints the rules under text over with the background below them, in `frame` and in `sides`: underlined links
 * and headings, whose letters touch the rule. */
CV_MUST_CHECK int cv_underlines_remove(struct cv_frame *frame, struct cv_sides *sides,
                                       struct cv_error *error);
