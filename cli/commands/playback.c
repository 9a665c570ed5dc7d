#include "cli/commands/playback.h"

#include <math.h>
#include <string.h>

enum { PLAYLIST_MAX = 16 << 20 }; /* bytes; 48 hours of key frames have 9 MB */

static const double tolerance = 0.01; /* seconds; durations in playlists are rounded */

struct check {
    struct cv_store *store;
    cli_playback_fault fault;
    void *opaque;
    char prefix[96]; /* of the objects that are being read */
    struct cv_object_list listed;
    struct cli_playback found;
};

/* Lists the objects under the prefix, in the order of their keys. */
static int list_objects(struct check *check, struct cv_error *error)
{
    cv_object_list_deinit(&check->listed);
    check->listed = (struct cv_object_list){0};
    cv_auto_free char *continuation = NULL;
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list page = {0};
        const struct cv_listing listing = {.prefix = check->prefix, .continuation = continuation};
        CV_TRY(cv_store_list(check->store, &listing, &page, error));
        for (size_t i = 0; i < page.count; i++) {
            CV_TRY_MEMORY(CV_MAKE_ROOM(check->listed.entries, check->listed.count), error,
                          "a list of objects");
            check->listed.entries[check->listed.count++] = page.entries[i];
            page.entries[i] = (struct cv_object_entry){0};
        }
        free(continuation);
        continuation = cv_take(page.continuation);
    } while (continuation);
    return 0;
}

static int by_key(const void *key, const void *entry)
{
    return strcmp(key, ((const struct cv_object_entry *)entry)->key);
}

/* Whether an object exists and has so many bytes; says it if not. */
static bool has_object(struct check *check, const char *name, int64_t bytes)
{
    char key[512];
    (void)snprintf(key, sizeof(key), "%s%s", check->prefix, name);
    const struct cv_object_entry *entry = bsearch(key, check->listed.entries, check->listed.count,
                                                  sizeof(*check->listed.entries), by_key);
    check->found.objects++;
    if (!entry || entry->size < bytes) {
        check->fault(check->opaque, name, entry ? "is shorter than a playlist says" : "is missing");
    }
    return entry != NULL;
}

/* The value of URI="…" in a tag, cut out of it; NULL if it has none. */
static char *cut_uri(char *tag)
{
    static const char attribute[] = "URI=\"";
    char *uri = strstr(tag, attribute);
    uri = uri ? uri + strlen(attribute) : NULL;
    if (uri) {
        uri[strcspn(uri, "\"")] = '\0';
    }
    return uri;
}

/* The first byte behind a range LENGTH@OFFSET. */
static int64_t end_of_range(const char *text)
{
    char *rest = NULL;
    int64_t length = strtoll(text, &rest, 10);
    int64_t offset = *rest == '@' ? strtoll(rest + 1, NULL, 10) : 0;
    return length > INT64_MAX - offset ? INT64_MAX : length + offset;
}

static int read_playlist(struct check *check, const char *name, bool is_index,
                         struct cv_error *error)
{
    cv_auto_free char *key = NULL;
    cv_auto_free void *text = NULL;
    size_t size = 0;
    double seconds = 0;
    int64_t bytes = 0;
    bool has_ended = is_index, keys_only = false;
    if (!has_object(check, name, 0)) {
        return 0;
    }
    CV_TRY(cv_format(&key, error, "%s%s", check->prefix, name));
    CV_TRY(cv_store_get(check->store, key, PLAYLIST_MAX, &text, &size, error));
    check->found.playlists++;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "#EXTINF:", strlen("#EXTINF:")) == 0) {
            seconds += strtod(line + strlen("#EXTINF:"), NULL);
        } else if (strncmp(line, "#EXT-X-BYTERANGE:", strlen("#EXT-X-BYTERANGE:")) == 0) {
            bytes = end_of_range(line + strlen("#EXT-X-BYTERANGE:"));
        }
        has_ended = has_ended || strcmp(line, "#EXT-X-ENDLIST") == 0;
        keys_only = keys_only || strcmp(line, "#EXT-X-I-FRAMES-ONLY") == 0;
        const char *named = line[0] == '#' ? cut_uri(line) : line;
        if (named && is_index) {
            CV_TRY(read_playlist(check, named, false, error));
        } else if (named) {
            (void)has_object(check, named, bytes);
            bytes = 0;
        }
    }
    if (!has_ended) {
        check->fault(check->opaque, name, "has no end");
    }
    if (is_index || keys_only) {
        return 0;
    }
    check->found.seconds = check->found.seconds > 0 ? check->found.seconds : seconds;
    if (fabs(seconds - check->found.seconds) > tolerance) {
        check->fault(check->opaque, name, "does not last as long as the playlists before it");
    }
    return 0;
}

/* The poster, and the sheets that the WebVTT names. */
static int read_thumbs(struct check *check, struct cv_error *error)
{
    static const char file[] = "thumbnails.vtt";
    cv_auto_free char *key = NULL;
    cv_auto_free void *text = NULL;
    size_t size = 0;
    CV_TRY(cv_format(&key, error, "%s%s", check->prefix, file));
    (void)has_object(check, "poster.jpg", 1);
    if (!has_object(check, file, 0)) {
        return 0;
    }
    CV_TRY(cv_store_get(check->store, key, PLAYLIST_MAX, &text, &size, error));
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *place = strstr(line, "#xywh=");
        if (place) {
            *place = '\0';
            (void)has_object(check, line, 1);
        }
    }
    return 0;
}

int cli_playback_check(struct cv_store *store, const char *video_id, cli_playback_fault fault,
                       void *opaque, struct cli_playback *ret_playback, struct cv_error *error)
{
    struct check check = {.store = store, .fault = fault, .opaque = opaque};
    (void)snprintf(check.prefix, sizeof(check.prefix), CV_KEYS_PROXY "%s/", video_id);
    int result = list_objects(&check, error);
    result = result ? result : read_playlist(&check, "index.m3u8", true, error);
    (void)snprintf(check.prefix, sizeof(check.prefix), CV_KEYS_THUMBS "%s/", video_id);
    result = result ? result : list_objects(&check, error);
    result = result ? result : read_thumbs(&check, error);
    cv_object_list_deinit(&check.listed);
    *ret_playback = check.found;
    return result;
}
