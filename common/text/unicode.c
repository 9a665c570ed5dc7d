#include "common/text/unicode.h"

#include <string.h>
#include <utf8proc.h>

enum { REPLACEMENT = 0xFFFD };

int cv_unicode_decode(const char *text, int32_t **ret_points, size_t *ret_count,
                      struct cv_error *error)
{
    size_t length = strnlen(text, CV_TEXT_MAX_BYTES + 1);
    if (length > CV_TEXT_MAX_BYTES) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a text is longer than %d bytes",
                       CV_TEXT_MAX_BYTES);
    }
    cv_auto_free int32_t *points = malloc((length + 1) * sizeof(*points));
    CV_TRY_MEMORY(points, error, "a text");
    size_t count = 0;
    for (size_t at = 0; at < length;) {
        int32_t point;
        utf8proc_ssize_t taken = utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                                                  (utf8proc_ssize_t)(length - at), &point);
        points[count++] = taken > 0 ? point : REPLACEMENT;
        at += taken > 0 ? (size_t)taken : 1;
    }
    *ret_points = cv_take(points);
    *ret_count = count;
    return 0;
}

void cv_unicode_append(struct cv_buffer *buffer, int32_t point)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t length = utf8proc_encode_char(point, bytes);
    cv_buffer_append(buffer, bytes, (size_t)length);
}
