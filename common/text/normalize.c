#include "common/text/text.h"
#include "common/text/unicode.h"

#include <string.h>
#include <utf8proc.h>

enum {
    ZERO_WIDTH_JOINER = 0x200D,
    REPLACEMENT = 0xFFFD,
    BLACK_FLAG = 0x1F3F4,
};

int cv_unicode_decode(const char *text, int32_t **ret_points, size_t *ret_count,
                      struct cv_error *error)
{
    size_t length = strnlen(text, CV_TEXT_MAX_BYTES + 1);
    if (length > CV_TEXT_MAX_BYTES) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a text is longer than %d bytes",
                       CV_TEXT_MAX_BYTES);
    }
    cv_auto_free int32_t *points = malloc((length + 1) * sizeof(*points));
    if (!points) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a text of %zu bytes", length);
    }
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

static bool is_pictograph(int32_t point)
{
    return utf8proc_get_property(point)->boundclass == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC;
}

static bool is_skin_tone(int32_t point)
{
    return point >= 0x1F3FB && point <= 0x1F3FF;
}

static bool is_variation_selector(int32_t point)
{
    return (point >= 0xFE00 && point <= 0xFE0F) || (point >= 0xE0100 && point <= 0xE01EF) ||
           (point >= 0x180B && point <= 0x180D);
}

static bool is_tag(int32_t point)
{
    return point >= 0xE0020 && point <= 0xE007F;
}

/* Letters that show nothing and stand for a missing one. */
static bool is_hangul_filler(int32_t point)
{
    return point == 0x115F || point == 0x1160 || point == 0x3164 || point == 0xFFA0;
}

static bool is_blank(int32_t point)
{
    if ((point >= '\t' && point <= '\r') || point == 0x85) {
        return true;
    }
    utf8proc_category_t category = utf8proc_category(point);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

/* What cannot be seen. A joiner between two pictographs and the tags of a flag are part of what is
 * seen; `previous` is the last code point kept. */
static bool is_invisible(int32_t point, int32_t previous, const int32_t *rest, size_t rest_count)
{
    if (point == ZERO_WIDTH_JOINER) {
        return !((is_pictograph(previous) || is_skin_tone(previous)) && rest_count > 0 &&
                 is_pictograph(rest[0]));
    }
    if (is_tag(point)) {
        return previous != BLACK_FLAG && !is_tag(previous);
    }
    utf8proc_category_t category = utf8proc_category(point);
    return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           is_variation_selector(point) || is_hangul_filler(point) || point == 0x034F;
}

/* Drops what cannot be seen and collapses white space, in place; returns the new count. */
static size_t collapse(int32_t *points, size_t count)
{
    size_t kept = 0;
    bool blank_due = false;
    int32_t previous = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_blank(points[i])) {
            blank_due = kept > 0;
            previous = ' ';
            continue;
        }
        if (is_invisible(points[i], previous, points + i + 1, count - i - 1)) {
            continue;
        }
        previous = points[i];
        if (blank_due) {
            points[kept++] = ' '; /* there is room: the blank itself was read */
            blank_due = false;
        }
        points[kept++] = previous;
    }
    return kept;
}

/* NFKC and case folding of `count` code points into a new array. */
static int fold(const int32_t *points, size_t count, int32_t **ret_folded, size_t *ret_count,
                struct cv_error *error)
{
    const utf8proc_option_t options =
        UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD;
    cv_auto(cv_buffer_deinit) struct cv_buffer utf8 = CV_BUFFER_INIT;
    for (size_t i = 0; i < count; i++) {
        cv_unicode_append(&utf8, points[i]);
    }
    if (utf8.failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to normalize a text");
    }
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)utf8.data;
    utf8proc_ssize_t length = (utf8proc_ssize_t)utf8.length;
    utf8proc_ssize_t needed = utf8proc_decompose(bytes, length, NULL, 0, options);
    if (needed < 0) {
        return cv_fail(error, CV_ERROR_INTERNAL, "normalizing a text: %s", utf8proc_errmsg(needed));
    }
    cv_auto_free int32_t *folded = malloc(((size_t)needed + 1) * sizeof(*folded));
    if (!folded) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to normalize a text");
    }
    utf8proc_ssize_t got = utf8proc_decompose(bytes, length, folded, needed, options);
    if (got >= 0) {
        got = utf8proc_normalize_utf32(folded, got, options);
    }
    if (got < 0) {
        return cv_fail(error, CV_ERROR_INTERNAL, "normalizing a text: %s", utf8proc_errmsg(got));
    }
    *ret_folded = cv_take(folded);
    *ret_count = (size_t)got;
    return 0;
}

int cv_text_normalize(const char *text, char **ret_normalized, struct cv_error *error)
{
    cv_auto_free int32_t *points = NULL;
    size_t count = 0;
    int result = cv_unicode_decode(text, &points, &count, error);
    if (result < 0) {
        return result;
    }
    count = collapse(points, count);
    cv_auto(cv_buffer_deinit) struct cv_buffer normalized = CV_BUFFER_INIT;
    if (count > 0) {
        /* Folding can make blanks (U+00A8 is a blank with a mark), so collapse once more. */
        cv_auto_free int32_t *folded = NULL;
        result = fold(points, count, &folded, &count, error);
        if (result < 0) {
            return result;
        }
        count = collapse(folded, count);
        for (size_t i = 0; i < count; i++) {
            cv_unicode_append(&normalized, folded[i]);
        }
    }
    return cv_buffer_take(&normalized, ret_normalized, error);
}
