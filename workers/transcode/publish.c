#include "workers/transcode/transcode.h"

#include <string.h>

enum { LIST_PAGE = 1000 };

static int prefix_of(const char *video_id, char **ret_prefix, struct cv_error *error)
{
    return cv_format(ret_prefix, error, "videos/proxy/%s/", video_id);
}

int transcode_playlist_key(const char *video_id, char **ret_key, struct cv_error *error)
{
    return cv_format(ret_key, error, "videos/proxy/%s/index.m3u8", video_id);
}

int transcode_poster_key(const char *video_id, char **ret_key, struct cv_error *error)
{
    return cv_format(ret_key, error, "thumbs/%s/poster.jpg", video_id);
}

static int put_segments(struct cv_stage_context *context, const char *prefix, const char *directory,
                        int segments, struct cv_error *error)
{
    for (int i = 0; i < segments; i++) {
        if (cv_cancel_level(cv_stage_cancel(context)) >= CV_CANCEL_ABORT) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped while publishing");
        }
        cv_auto_free char *key = NULL;
        cv_auto_free char *path = NULL;
        int result = cv_format(&key, error, "%ssegment_%05d.ts", prefix, i);
        result = result ? result : cv_format(&path, error, "%s/segment_%05d.ts", directory, i);
        result = result ? result : cv_stage_put_file(context, key, path, "video/mp2t", error);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* Whether a key names a segment whose number the new playlist does not have. */
static bool is_stale(const char *key, const char *prefix, int segments)
{
    const char *name = key + strlen(prefix);
    int number = -1, length = 0;
    return sscanf(name, "segment_%d.ts%n", &number, &length) == 1 && length > 0 &&
           name[length] == '\0' && number >= segments;
}

/* Deleting while listing is safe: a page continues behind its last key. */
static int delete_stale(struct cv_store *store, const char *prefix, int segments,
                        struct cv_error *error)
{
    cv_auto_free char *continuation = NULL;
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
        int result = cv_store_list(store, prefix, continuation, LIST_PAGE, &list, error);
        for (size_t i = 0; result == 0 && i < list.count; i++) {
            if (is_stale(list.entries[i].key, prefix, segments)) {
                result = cv_store_delete(store, list.entries[i].key, error);
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

int transcode_publish(struct cv_stage_context *context, const char *video_id, const char *directory,
                      int segments, const void *poster, size_t poster_size, struct cv_error *error)
{
    cv_auto_free char *prefix = NULL;
    cv_auto_free char *poster_key = NULL;
    cv_auto_free char *playlist_key = NULL;
    cv_auto_free char *playlist_path = NULL;
    int result = prefix_of(video_id, &prefix, error);
    result = result ? result : transcode_poster_key(video_id, &poster_key, error);
    result = result ? result : transcode_playlist_key(video_id, &playlist_key, error);
    result = result ? result : cv_format(&playlist_path, error, "%s/index.m3u8", directory);
    result = result ? result : put_segments(context, prefix, directory, segments, error);
    result = result ? result
                    : cv_stage_put(context, poster_key, poster, poster_size, "image/jpeg", error);
    result = result ? result
                    : cv_stage_put_file(context, playlist_key, playlist_path,
                                        "application/vnd.apple.mpegurl", error);
    return result ? result : delete_stale(cv_stage_store(context), prefix, segments, error);
}
