/* Groups the connected areas of ink of one side to lines. */
#pragma once

#include "common/screen/components.h"
#include "common/screen/find_lines.h"

/* Groups components to lines, split at gaps as wide as columns have; ordered by top, then left. */
CV_MUST_CHECK int ocr_lines_group(const struct ocr_components *components,
                                  struct ocr_lines *ret_lines, struct cv_error *error);

/* By top, then left. */
void ocr_lines_sort(struct ocr_lines *lines);
