#include "common/objects/objects.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { UUID_LENGTH = CV_OBJECT_ID_SIZE - 1 };

static const char *const prefixes[CV_OBJECT_PLACE_COUNT] = {
    [CV_OBJECT_CLIPS] = "videos/clips/", [CV_OBJECT_THUMBS] = "thumbs/",
    [CV_OBJECT_FRAMES] = "frames/",      [CV_OBJECT_LINES] = "lines/",
    [CV_OBJECT_PROXY] = "videos/proxy/", [CV_OBJECT_ORIGINAL] = "videos/original/",
};

const char *cv_object_prefix(enum cv_object_place place)
{
    return prefixes[place];
}

/* A UUID that ends at a '/', as the next segment of a key. */
static bool read_id(const char *segment, char ret_id[CV_OBJECT_ID_SIZE])
{
    if (strcspn(segment, "/") != UUID_LENGTH || segment[UUID_LENGTH] != '/') {
        return false;
    }
    char id[CV_OBJECT_ID_SIZE];
    memcpy(id, segment, UUID_LENGTH);
    id[UUID_LENGTH] = '\0';
    if (!cv_is_uuid(id)) {
        return false;
    }
    memcpy(ret_id, id, sizeof(id));
    return true;
}

static bool is_lower(const char *text)
{
    for (; *text; text++) {
        if (isupper((unsigned char)*text)) {
            return false;
        }
    }
    return true;
}

bool cv_object_video(enum cv_object_place place, const char *key,
                     char ret_video_id[CV_OBJECT_ID_SIZE])
{
    size_t length = strlen(prefixes[place]);
    char id[CV_OBJECT_ID_SIZE];
    if (strncmp(key, prefixes[place], length) != 0 || !read_id(key + length, id) || !is_lower(id)) {
        return false;
    }
    memcpy(ret_video_id, id, sizeof(id));
    return true;
}

bool cv_object_is_original(const char *key, char ret_video_id[CV_OBJECT_ID_SIZE])
{
    static const char start[] = "master.";
    char id[CV_OBJECT_ID_SIZE];
    if (!cv_object_video(CV_OBJECT_ORIGINAL, key, id)) {
        return false;
    }
    const char *name = key + strlen(prefixes[CV_OBJECT_ORIGINAL]) + UUID_LENGTH + 1;
    const char *extension = name + strlen(start);
    if (strncmp(name, start, strlen(start)) != 0 || *extension == '\0' || strchr(name, '/')) {
        return false;
    }
    memcpy(ret_video_id, id, sizeof(id));
    return true;
}

static bool read_extension(const char *name, char *extension, size_t size)
{
    static const char *const known[] = {
        "3gp",  "avi", "flv", "m2ts", "m4v", "mkv", "mov",  "mp4",
        "mpeg", "mpg", "mts", "mxf",  "ogv", "ts",  "webm", "wmv",
    };
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name) { /* ".mp4" is a hidden file of some program */
        return false;
    }
    for (size_t i = 0; i < CV_COUNT(known); i++) {
        if (strcasecmp(dot + 1, known[i]) == 0) {
            (void)snprintf(extension, size, "%s", known[i]);
            return true;
        }
    }
    return false;
}

static void to_lower(char *text)
{
    for (; *text; text++) {
        *text = (char)tolower((unsigned char)*text);
    }
}

enum cv_inbox_verdict cv_inbox_read(const char *key, struct cv_inbox_key *ret_key)
{
    struct cv_inbox_key found = {.name = strrchr(key, '/') + 1};
    const char *rest = key + strlen(CV_OBJECT_INBOX);
    if (!read_extension(found.name, found.extension, sizeof(found.extension))) {
        return CV_INBOX_OTHER;
    }
    if (rest != found.name) {
        if (!read_id(rest, found.owner_id)) {
            return CV_INBOX_NO_OWNER;
        }
        if (read_id(rest + UUID_LENGTH + 1, found.team_id)) {
            to_lower(found.team_id);
        }
        to_lower(found.owner_id);
    }
    *ret_key = found;
    return CV_INBOX_VIDEO;
}
