#include "workers/transcode/transcode.h"

#include <string.h>

struct noted {
    char *key, *path;
    bool is_on_its_way;
};

struct transcode_publisher {
    struct cv_stage_context *context;
    char *prefixes[2]; /* index: enum cv_ladder_part */
    struct noted *noted;
    size_t count;
};

int transcode_playlist_key(const char *video_id, char **ret_key, struct cv_error *error)
{
    return cv_object_key(CV_OBJECT_PROXY, video_id, ret_key, error, "index.m3u8");
}

int transcode_poster_key(const char *video_id, char **ret_key, struct cv_error *error)
{
    return cv_object_key(CV_OBJECT_THUMBS, video_id, ret_key, error, "poster.jpg");
}

int transcode_publisher_new(struct cv_stage_context *context, const char *video_id,
                            struct transcode_publisher **ret_publisher, struct cv_error *error)
{
    cv_auto(transcode_publisher_free) struct transcode_publisher *publisher =
        calloc(1, sizeof(*publisher));
    CV_TRY_MEMORY(publisher, error, "publishing");
    publisher->context = context;
    CV_TRY(
        cv_object_folder(CV_OBJECT_PROXY, video_id, &publisher->prefixes[CV_LADDER_STREAM], error));
    CV_TRY(cv_object_folder(CV_OBJECT_THUMBS, video_id, &publisher->prefixes[CV_LADDER_THUMBS],
                            error));
    *ret_publisher = cv_take(publisher);
    return 0;
}

static void free_noted(struct noted *noted)
{
    free(noted->key);
    free(noted->path);
}

void transcode_publisher_free(struct transcode_publisher *publisher)
{
    if (publisher) {
        for (size_t i = 0; i < publisher->count; i++) {
            free_noted(&publisher->noted[i]);
        }
        free(publisher->noted);
        free(publisher->prefixes[CV_LADDER_STREAM]);
        free(publisher->prefixes[CV_LADDER_THUMBS]);
        free(publisher);
    }
}

/* Whether a file refers to other files: playlists and lists of thumbnails. They are stored last, so
 * that they never refer to a missing file. */
static bool names_others(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, ".m3u8") == 0 || strcmp(dot, ".vtt") == 0);
}

int transcode_publisher_add(void *opaque, const struct cv_ladder_file *file, struct cv_error *error)
{
    struct transcode_publisher *publisher = opaque;
    CV_TRY_MEMORY(CV_MAKE_ROOM(publisher->noted, publisher->count), error, "a list of objects");
    struct noted noted = {0};
    int result = cv_format(&noted.key, error, "%s%s", publisher->prefixes[file->part], file->name);
    result = result ? result : cv_format(&noted.path, error, "%s", file->path ? file->path : "");
    if (result != 0) {
        free_noted(&noted);
        return result;
    }
    noted.is_on_its_way = !names_others(file->name);
    publisher->noted[publisher->count++] = noted;
    if (!file->path) {
        return 0;
    }
    const struct cv_new_object object = {.key = noted.key, .path = noted.path};
    return noted.is_on_its_way ? cv_stage_upload(publisher->context, &object, error) : 0;
}

static int put_rest(const struct transcode_publisher *publisher, struct cv_error *error)
{
    for (size_t i = 0; i < publisher->count; i++) {
        if (cv_cancel_level(cv_stage_cancel(publisher->context)) >= CV_CANCEL_ABORT) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped while publishing");
        }
        const struct noted *noted = &publisher->noted[i];
        if (noted->is_on_its_way) {
            continue;
        }
        const struct cv_new_object object = {.key = noted->key, .path = noted->path};
        CV_TRY(cv_stage_put(publisher->context, &object, error));
    }
    return 0;
}

int transcode_publisher_put(struct transcode_publisher *publisher, enum cv_ladder_part part,
                            const char *name, const void *data, size_t size, struct cv_error *error)
{
    cv_auto_free char *key = NULL;
    struct cv_ladder_file file = {part, name, NULL};
    CV_TRY(cv_format(&key, error, "%s%s", publisher->prefixes[part], name));
    const struct cv_new_object object = {.key = key, .data = data, .size = size};
    CV_TRY(cv_stage_put(publisher->context, &object, error));
    return transcode_publisher_add(publisher, &file, error);
}

int transcode_publisher_get(struct transcode_publisher *publisher, enum cv_ladder_part part,
                            const char *name, void **ret_data, size_t *ret_size,
                            struct cv_error *error)
{
    enum { OBJECT_MAX = 64 << 20 }; /* bytes; the description of a day in one chunk has 20 MB */
    cv_auto_free char *key = NULL;
    CV_TRY(cv_format(&key, error, "%s%s", publisher->prefixes[part], name));
    int result = cv_store_get(cv_stage_store(publisher->context), key, OBJECT_MAX, ret_data,
                              ret_size, error);
    return result == CV_STORE_NOT_FOUND
               ? cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "%s is missing in the store", key)
               : result;
}

/* ---- objects of an earlier run --------------------------------------------------------------- */

static int by_key(const void *one, const void *other)
{
    return strcmp(((const struct noted *)one)->key, ((const struct noted *)other)->key);
}

/* Whether this stage makes objects with such keys; others may store objects beside them. */
static bool is_ours(const char *name)
{
    static const char *const beginnings[] = {"segment_", "init_", "sprite_", "chunk_", "poster."};
    size_t length = strlen(name);
    if (length > 5 && strcmp(name + length - 5, ".m3u8") == 0) {
        return true;
    }
    for (size_t i = 0; i < CV_COUNT(beginnings); i++) {
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Deleting while listing is safe: a page continues after its last key. */
static int delete_stale(const struct transcode_publisher *publisher, const char *prefix,
                        struct cv_error *error)
{
    struct cv_store *store = cv_stage_store(publisher->context);
    cv_auto_free char *continuation = NULL;
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
        const struct cv_listing listing = {.prefix = prefix, .continuation = continuation};
        int result = cv_store_list(store, &listing, &list, error);
        for (size_t i = 0; result == 0 && i < list.count; i++) {
            const struct noted wanted = {.key = list.entries[i].key};
            if (is_ours(wanted.key + strlen(prefix)) &&
                !bsearch(&wanted, publisher->noted, publisher->count, sizeof(wanted), by_key)) {
                result = cv_store_delete(store, wanted.key, error);
            }
        }
        if (result != 0) {
            return result;
        }
        free(continuation);
        continuation = cv_take(list.continuation);
    } while (continuation);
    return 0;
}

int transcode_publisher_finish(struct transcode_publisher *publisher, struct cv_error *error)
{
    CV_TRY(put_rest(publisher, error));
    qsort(publisher->noted, publisher->count, sizeof(*publisher->noted), by_key);
    CV_TRY(delete_stale(publisher, publisher->prefixes[CV_LADDER_STREAM], error));
    return delete_stale(publisher, publisher->prefixes[CV_LADDER_THUMBS], error);
}
