/* Letters of two rows that touch: a descender and what stands below it are one component. Cut apart, each is a letter of
 * its row; as one it would draw both rows into a line that nobody can read. */
#pragma once

#include "common/screen/components.h"

/* Cuts components apart that are letters of two rows. */
CV_MUST_CHECK int cv_touching_rows_cut(struct cv_components *components, struct cv_error *error);
