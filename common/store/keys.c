#include "common/store/backend.h"

#include <string.h>
#include <strings.h>
#include <utf8proc.h>

static bool is_control(utf8proc_int32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

static int check_characters(const char *key, size_t length, struct cv_error *error)
{
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)key;
    for (size_t at = 0; at < length;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t step = utf8proc_iterate(bytes + at, (utf8proc_ssize_t)(length - at), &c);
        if (step <= 0) {
            return cv_fail(error, CV_ERROR_INVALID_KEY, "object key is not UTF-8 (byte %zu)", at);
        }
        if (is_control(c)) {
            return cv_fail(error, CV_ERROR_INVALID_KEY,
                           "object key holds a control character (byte %zu)", at);
        }
        at += (size_t)step;
    }
    return 0;
}

static int check_segments(const char *key, struct cv_error *error)
{
    for (const char *segment = key;;) {
        size_t length = strcspn(segment, "/");
        if (length == 0) {
            return cv_fail(error, CV_ERROR_INVALID_KEY, "object key has an empty segment: %s", key);
        }
        if ((length == 1 && segment[0] == '.') ||
            (length == 2 && segment[0] == '.' && segment[1] == '.')) {
            return cv_fail(error, CV_ERROR_INVALID_KEY, "object key climbs: %s", key);
        }
        if (segment[length] == '\0') {
            return 0;
        }
        segment += length + 1;
    }
}

int cv_store_check_key(const char *key, struct cv_error *error)
{
    size_t length = key ? strnlen(key, CV_STORE_KEY_MAX + 1) : 0;
    if (length == 0) {
        return cv_fail(error, CV_ERROR_INVALID_KEY, "object key is empty");
    }
    if (length > CV_STORE_KEY_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_KEY, "object key is longer than %d bytes",
                       CV_STORE_KEY_MAX);
    }
    int result = check_characters(key, length, error);
    return result ? result : check_segments(key, error);
}

static const struct {
    const char *extension;
    const char *type;
} content_types[] = {
    {"mp4", "video/mp4"},
    {"m4v", "video/mp4"},
    {"mov", "video/quicktime"},
    {"webm", "video/webm"},
    {"mkv", "video/x-matroska"},
    {"avi", "video/x-msvideo"},
    {"mpg", "video/mpeg"},
    {"mpeg", "video/mpeg"},
    {"ts", "video/mp2t"},
    {"m4s", "video/iso.segment"},
    {"m3u8", "application/vnd.apple.mpegurl"},
    {"mp3", "audio/mpeg"},
    {"m4a", "audio/mp4"},
    {"wav", "audio/wav"},
    {"jpg", "image/jpeg"},
    {"jpeg", "image/jpeg"},
    {"png", "image/png"},
    {"webp", "image/webp"},
    {"gif", "image/gif"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"csv", "text/csv; charset=utf-8"},
    {"txt", "text/plain; charset=utf-8"},
    {"log", "text/plain; charset=utf-8"},
    {"vtt", "text/vtt; charset=utf-8"},
    {"srt", "application/x-subrip"},
};

const char *cv_content_type_of_key(const char *key)
{
    const char *slash = strrchr(key, '/');
    const char *dot = strrchr(slash ? slash : key, '.');
    for (size_t i = 0; dot && i < CV_COUNT(content_types); i++) {
        if (strcasecmp(dot + 1, content_types[i].extension) == 0) {
            return content_types[i].type;
        }
    }
    return "application/octet-stream";
}
