#include "common/proxy/proxy_internal.h"

#include <string.h>

void cv_proxy_media_deinit(struct cv_proxy_media *media)
{
    free(media->entries);
    *media = (struct cv_proxy_media){0};
}

bool cv_proxy_attribute(const char *line, const char *attribute, char *value, size_t size)
{
    size_t length = strlen(attribute);
    const char *at = strchr(line, ':');
    while (at) {
        at++;
        const char *equals = strchr(at, '=');
        if (!equals) {
            return false;
        }
        bool quoted = equals[1] == '"';
        const char *begin = equals + (quoted ? 2 : 1);
        const char *end = begin + strcspn(begin, quoted ? "\"" : ",");
        if ((size_t)(equals - at) == length && strncmp(at, attribute, length) == 0) {
            (void)snprintf(value, size, "%.*s", (int)(end - begin), begin);
            return true;
        }
        at = strchr(end, ',');
    }
    return false;
}

static int add(struct cv_proxy_media *media, const struct cv_proxy_entry *entry,
               struct cv_error *error)
{
    if (media->count == media->capacity) {
        size_t capacity = media->capacity ? 2 * media->capacity : 64;
        struct cv_proxy_entry *more = reallocarray(media->entries, capacity, sizeof(*more));
        if (!more) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a playlist");
        }
        media->entries = more;
        media->capacity = capacity;
    }
    media->entries[media->count++] = *entry;
    return 0;
}

/* The text behind a tag, NULL when the line is another. */
static const char *after(const char *line, const char *tag)
{
    size_t length = strlen(tag);
    return strncmp(line, tag, length) == 0 ? line + length : NULL;
}

static void read_tag(const char *line, struct cv_proxy_media *media, struct cv_proxy_entry *entry)
{
    const char *value;
    if ((value = after(line, "#EXT-X-TARGETDURATION:"))) {
        media->target = (int)strtol(value, NULL, 10);
    } else if ((value = after(line, "#EXTINF:"))) {
        entry->duration = strtod(value, NULL);
    } else if ((value = after(line, "#EXT-X-BYTERANGE:"))) {
        char *rest = NULL;
        entry->size = strtoll(value, &rest, 10);
        entry->offset = *rest == '@' ? strtoll(rest + 1, NULL, 10) : -1;
    } else if (after(line, "#EXT-X-MAP:")) {
        (void)cv_proxy_attribute(line, "URI", media->map, sizeof(media->map));
    } else if (strcmp(line, "#EXT-X-ENDLIST") == 0) {
        media->ended = true;
    } else if (strcmp(line, "#EXT-X-INDEPENDENT-SEGMENTS") == 0) {
        media->independent = true;
    } else if (strcmp(line, "#EXT-X-I-FRAMES-ONLY") == 0) {
        media->key_frames_only = true;
    }
}

int cv_proxy_read_media(struct cv_proxy *proxy, const char *name, char *text,
                        struct cv_proxy_media *media, struct cv_error *error)
{
    if (!after(text, "#EXTM3U\n")) {
        cv_proxy_tell(proxy, name, "is no playlist");
    }
    struct cv_proxy_entry entry = {0};
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] == '#') {
            read_tag(line, media, &entry);
            continue;
        }
        if (strlen(line) >= sizeof(entry.name) || strchr(line, '/')) {
            cv_proxy_tell(proxy, name, "names what lies elsewhere: %s", line);
            continue;
        }
        (void)snprintf(entry.name, sizeof(entry.name), "%s", line);
        int result = add(media, &entry, error);
        if (result != 0) {
            return result;
        }
        entry = (struct cv_proxy_entry){0};
    }
    if (!media->ended) {
        cv_proxy_tell(proxy, name, "has no end");
    }
    for (size_t i = 0; i < media->count; i++) {
        double duration = media->entries[i].duration;
        if (duration <= 0 || (int)(duration + 0.5) > media->target) {
            cv_proxy_tell(proxy, name, "%s lasts %.3f s, beyond the target of %d",
                          media->entries[i].name, duration, media->target);
        }
    }
    return 0;
}
