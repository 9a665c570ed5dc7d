/* Groups the connected areas of ink of one side to lines. */
#pragma once

#include "common/screen/components.h"
#include "common/screen/find_lines.h"

/* Groups components to lines, split at gaps as wide as columns have; ordered by top, then left. */
CV_MUST_CHECK int cv_text_lines_group(const struct cv_components *components,
                                      struct cv_text_lines *ret_lines, struct cv_error *error);

/* By top, then left. */
void cv_text_lines_sort(struct cv_text_lines *lines);
