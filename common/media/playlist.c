#include "common/media/playlist.h"

#include <inttypes.h>

enum { FIRST_CAPACITY = 64 };

void cv_playlist_deinit(struct cv_playlist *playlist)
{
    free(playlist->durations);
    *playlist = (struct cv_playlist){0};
}

int cv_playlist_add(struct cv_playlist *playlist, int64_t ticks, struct cv_error *error)
{
    if (playlist->count == playlist->capacity) {
        size_t capacity = playlist->capacity ? 2 * playlist->capacity : FIRST_CAPACITY;
        int64_t *durations = reallocarray(playlist->durations, capacity, sizeof(*durations));
        if (!durations) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a playlist");
        }
        playlist->durations = durations;
        playlist->capacity = capacity;
    }
    playlist->durations[playlist->count++] = ticks;
    return 0;
}

int cv_playlist_text(const struct cv_playlist *playlist, char **ret_text, struct cv_error *error)
{
    int64_t target = 1;
    for (size_t i = 0; i < playlist->count; i++) {
        int64_t whole = (playlist->durations[i] + CV_PLAYLIST_CLOCK - 1) / CV_PLAYLIST_CLOCK;
        target = whole > target ? whole : target;
    }
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_buffer_printf(&text,
                     "#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-TARGETDURATION:%" PRId64
                     "\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n"
                     "#EXT-X-INDEPENDENT-SEGMENTS\n",
                     target);
    for (size_t i = 0; i < playlist->count; i++) {
        cv_buffer_printf(&text, "#EXTINF:%.6f,\nsegment_%05zu.ts\n",
                         (double)playlist->durations[i] / CV_PLAYLIST_CLOCK, i);
    }
    cv_buffer_text(&text, "#EXT-X-ENDLIST\n");
    return cv_buffer_take(&text, ret_text, error);
}
