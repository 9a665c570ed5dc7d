#include "gateway/media_part.h"

#include <math.h>
#include <string.h>

static const char info[] = "#EXTINF:", range[] = "#EXT-X-BYTERANGE:", map[] = "#EXT-X-MAP:URI=\"",
                  version[] = "#EXT-X-VERSION:", end_of_list[] = "#EXT-X-ENDLIST";
enum { GAP_VERSION = 8 }; /* of the protocol, which has EXT-X-GAP */

static bool begins(const char *line, const char *beginning)
{
    return strncmp(line, beginning, strlen(beginning)) == 0;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* The line behind a segment's own, which is the first one that is no tag. */
static const char *behind_segment(const char *line)
{
    while (*line == '#') {
        line = next_line(line);
    }
    return next_line(line);
}

int media_part_playlist(const struct media_part *part, const char *playlist, char **ret_playlist,
                        struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    double at_s = 0, from_s = (double)part->from_ms / 1000, to_s = (double)part->to_ms / 1000;
    const char *next;
    for (const char *line = playlist; *line; line = next) {
        bool is_segment = begins(line, info);
        double duration_s = is_segment ? strtod(line + strlen(info), NULL) : 0;
        next = is_segment ? behind_segment(line) : next_line(line);
        if (is_segment && at_s + duration_s <= from_s) {
            cv_buffer_printf(&text, "#EXT-X-GAP\n%s%.6f,\ngap\n", info, duration_s);
        } else if (begins(line, version) && part->from_ms > 0) {
            cv_buffer_printf(&text, "%s%d\n", version, GAP_VERSION);
        } else if (!is_segment || at_s < to_s) {
            cv_buffer_append(&text, line, (size_t)(next - line));
        }
        at_s += duration_s > 0 ? duration_s : 0;
    }
    if (at_s >= to_s && !strstr(playlist, end_of_list)) {
        cv_buffer_printf(&text, "%s\n",
                         end_of_list); /* what is still being made lies behind the part */
    }
    return cv_buffer_detach(&text, ret_playlist, error);
}

/* Whether the text begins with the name, and `end` follows. */
static bool is_name(const char *text, const char *name, char end)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && text[length] == end;
}

bool media_part_bytes(const char *playlist, const char *name, struct media_bytes *ret_bytes)
{
    struct media_bytes bytes = {INT64_MAX, 0}, of_segment = {0, INT64_MAX};
    for (const char *line = playlist; *line; line = next_line(line)) {
        if (begins(line, range)) {
            char *at = NULL;
            int64_t size = strtoll(line + strlen(range), &at, 10);
            int64_t offset = *at == '@' ? strtoll(at + 1, NULL, 10) : 0;
            of_segment = (struct media_bytes){offset, offset + size};
        } else if (is_name(line, name, '\n') ||
                   (begins(line, map) && is_name(line + strlen(map), name, '"'))) {
            bytes.first = of_segment.first < bytes.first ? of_segment.first : bytes.first;
            bytes.end = of_segment.end > bytes.end ? of_segment.end : bytes.end;
        }
        if (*line != '#') {
            of_segment = (struct media_bytes){0, INT64_MAX};
        }
    }
    *ret_bytes = bytes;
    return bytes.end > bytes.first;
}
