/* Small files of an installation and of its user. */
#pragma once

#include "common/base/base.h"

/* Replaces a file, or makes it, by a new one with this text that only this user may read: whenever it is
 * read, it is complete. */
CV_MUST_CHECK int cli_replace_file(const char *path, const char *text, struct cv_error *error);
