#include "common/store/backend.h"

#include <ctype.h>
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
            return cv_fail(error, CV_ERROR_INVALID_KEY, "object key has a segment . or ..: %s",
                           key);
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
    CV_TRY(check_characters(key, length, error));
    return check_segments(key, error);
}

static const struct media_type {
    const char *extension;
    const char *type;
    bool is_upload; /* a file that the inbox takes for a video */
} media_types[] = {
    {"3gp", "video/3gpp", true},
    {"avi", "video/x-msvideo", true},
    {"flv", "video/x-flv", true},
    {"m2ts", "video/mp2t", true},
    {"m4v", "video/mp4", true},
    {"mkv", "video/x-matroska", true},
    {"mov", "video/quicktime", true},
    {"mp4", "video/mp4", true},
    {"mpeg", "video/mpeg", true},
    {"mpg", "video/mpeg", true},
    {"mts", "video/mp2t", true},
    {"mxf", "application/mxf", true},
    {"ogv", "video/ogg", true},
    {"ts", "video/mp2t", true},
    {"webm", "video/webm", true},
    {"wmv", "video/x-ms-wmv", true},
    {"m4s", "video/iso.segment", false},
    {"m3u8", "application/vnd.apple.mpegurl", false},
    {"mp3", "audio/mpeg", false},
    {"m4a", "audio/mp4", false},
    {"wav", "audio/wav", false},
    {"jpg", "image/jpeg", false},
    {"jpeg", "image/jpeg", false},
    {"png", "image/png", false},
    {"webp", "image/webp", false},
    {"gif", "image/gif", false},
    {"json", "application/json", false},
    {"jsonl", "application/jsonl", false},
    {"csv", "text/csv; charset=utf-8", false},
    {"txt", "text/plain; charset=utf-8", false},
    {"log", "text/plain; charset=utf-8", false},
    {"vtt", "text/vtt; charset=utf-8", false},
    {"srt", "application/x-subrip", false},
    {"ass", "text/x-ssa; charset=utf-8", false},
    {"ssa", "text/x-ssa; charset=utf-8", false},
};

/* The row of a key's extension; NULL: it is not in the list. */
static const struct media_type *find_media_type(const char *key)
{
    const char *slash = strrchr(key, '/');
    const char *dot = strrchr(slash ? slash : key, '.');
    for (size_t i = 0; dot && i < CV_COUNT(media_types); i++) {
        if (strcasecmp(dot + 1, media_types[i].extension) == 0) {
            return &media_types[i];
        }
    }
    return NULL;
}

const char *cv_media_type(const char *key)
{
    const struct media_type *found = find_media_type(key);
    return found ? found->type : CV_MEDIA_TYPE_UNKNOWN;
}

/* ---- objects of videos ------------------------------------------------------------------------ */

enum { UUID_LENGTH = CV_OBJECT_ID_SIZE - 1 };

static const char *const prefixes[CV_OBJECT_PLACE_COUNT] = {
    [CV_OBJECT_CLIPS] = CV_KEYS_CLIPS,   [CV_OBJECT_THUMBS] = CV_KEYS_THUMBS,
    [CV_OBJECT_FRAMES] = CV_KEYS_FRAMES, [CV_OBJECT_LINES] = CV_KEYS_LINES,
    [CV_OBJECT_PROXY] = CV_KEYS_PROXY,   [CV_OBJECT_ORIGINAL] = CV_KEYS_ORIGINALS,
};

const char *cv_object_prefix(enum cv_object_place place)
{
    return prefixes[place];
}

/* What an object is for people, by the beginning of its key. */
static const struct {
    const char *prefix, *words;
} names_for_people[] = {
    {CV_KEYS_ORIGINALS, "the original of the video"},
    {CV_KEYS_PROXY, "a file for playback"},
    {CV_KEYS_CLIPS, "the clip"},
    {CV_KEYS_THUMBS, "a picture for the seek bar"},
    {CV_KEYS_FRAMES, "a kept frame of the video"},
    {CV_KEYS_LINES, "the kept lines of the video"},
    {CV_KEYS_INBOX, "the upload"},
    {CV_KEYS_UPLOADS, "the upload"},
    {CV_KEYS_JOB_LOGS, "the log of a job"},
    {CV_KEYS_OUTPUTS, "a file of a command"},
};

/* The words for a key at the end of a word of a message, and where it begins there; NULL: none. */
static const char *find_key(const char *word, size_t length)
{
    for (size_t i = 0; i < CV_COUNT(names_for_people); i++) {
        const char *prefix = names_for_people[i].prefix;
        const char *at = memmem(word, length, prefix, strlen(prefix));
        bool begins = at && (at == word || at[-1] == '/');
        size_t left = at ? length - (size_t)(at - word) - strlen(prefix) : 0;
        char id[CV_OBJECT_ID_SIZE];
        if (begins && left >= UUID_LENGTH) {
            (void)snprintf(id, sizeof(id), "%s", at + strlen(prefix));
            if (cv_is_uuid(id)) {
                return names_for_people[i].words;
            }
        }
    }
    return NULL;
}

void cv_hide_keys(char *message)
{
    char text[sizeof(((struct cv_error *)NULL)->message)] = "";
    size_t used = 0;
    for (const char *word = message; *word && used < sizeof(text) - 1;) {
        size_t space = strspn(word, " \"'(");
        size_t length = strcspn(word + space, " \"'()");
        while (length > 0 && strchr(":,;.", word[space + length - 1])) {
            length--;
        }
        const char *words = find_key(word + space, length);
        (void)snprintf(text + used, sizeof(text) - used, "%.*s%.*s", (int)space, word,
                       words ? (int)strlen(words) : (int)length, words ? words : word + space);
        used += strlen(text + used);
        word += space + length;
        size_t rest = strspn(word, ":,;.)");
        (void)snprintf(text + used, sizeof(text) - used, "%.*s", (int)rest, word);
        used += strlen(text + used);
        word += rest;
    }
    (void)snprintf(message, sizeof(text), "%s", text);
}

int cv_object_key(enum cv_object_place place, const char *video_id, char **ret_key,
                  struct cv_error *error, const char *name, ...)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer key = CV_BUFFER_INIT;
    char text[CV_STORE_KEY_MAX + 1];
    va_list arguments;
    va_start(arguments, name);
    (void)vsnprintf(text, sizeof(text), name, arguments);
    va_end(arguments);
    cv_buffer_printf(&key, "%s%s/%s", prefixes[place], video_id, text);
    return cv_buffer_detach(&key, ret_key, error);
}

int cv_object_folder(enum cv_object_place place, const char *video_id, char **ret_folder,
                     struct cv_error *error)
{
    return cv_format(ret_folder, error, "%s%s/", prefixes[place], video_id);
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

bool cv_object_belongs(enum cv_object_place place, const char *key, const char *video_id)
{
    char owner[CV_OBJECT_ID_SIZE];
    struct cv_error ignored;
    return key && cv_store_check_key(key, &ignored) == 0 && cv_object_video(place, key, owner) &&
           strcasecmp(owner, video_id) == 0;
}

bool cv_name_is_of_subtitles(const char *name)
{
    static const char *const endings[] = {".srt", ".vtt", ".ass", ".ssa"};
    const char *dot = strrchr(name, '.');
    bool is_one = false;
    for (size_t i = 0; dot && i < CV_COUNT(endings); i++) {
        is_one = is_one || strcasecmp(dot, endings[i]) == 0;
    }
    return is_one;
}

/* Whether a key is videos/original/{video}/master.{…}. */
static bool is_beside_original(const char *key, char ret_video_id[CV_OBJECT_ID_SIZE])
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

bool cv_object_is_original(const char *key, char ret_video_id[CV_OBJECT_ID_SIZE])
{
    return !cv_name_is_of_subtitles(key) && is_beside_original(key, ret_video_id);
}

bool cv_object_is_subtitles(const char *key, char ret_video_id[CV_OBJECT_ID_SIZE])
{
    return cv_name_is_of_subtitles(key) && is_beside_original(key, ret_video_id);
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
    const char *rest = key + strlen(CV_KEYS_INBOX);
    const struct media_type *type = find_media_type(found.name);
    bool is_subtitles = cv_name_is_of_subtitles(found.name);
    if (!type || !(type->is_upload || is_subtitles) ||
        strrchr(found.name, '.') == found.name) { /* ".mp4": some program's hidden file */
        return CV_INBOX_OTHER;
    }
    (void)snprintf(found.extension, sizeof(found.extension), "%s", type->extension);
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
    return is_subtitles ? CV_INBOX_SUBTITLES : CV_INBOX_VIDEO;
}
