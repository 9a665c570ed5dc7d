/* Text as code points, for this folder alone. */
#pragma once

#include "common/base/base.h"

/* A line of a screen has some hundred bytes; a page read as one line some thousand. What is longer
 * than this comes from no screen. */
enum { CV_TEXT_MAX_BYTES = 1 << 20 };

/* Code points of `text` (NUL-terminated bytes), each byte that belongs to no valid sequence turned
 * into U+FFFD. free() the array. CV_ERROR_LIMIT_EXCEEDED beyond CV_TEXT_MAX_BYTES. */
CV_MUST_CHECK int cv_unicode_decode(const char *text, int32_t **ret_points, size_t *ret_count,
                                    struct cv_error *error);

/* Appends one code point as UTF-8. */
void cv_unicode_append(struct cv_buffer *buffer, int32_t point);
