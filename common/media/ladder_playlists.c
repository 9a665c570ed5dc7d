#include "common/media/ladder_internal.h"

#include <math.h>
#include <string.h>

enum { POSTER_QUALITY = 85, POSTER_SIDE_MAX = 1280, FRAME_RATE_MAX = 60 };

static const char playlist_type[] = "application/vnd.apple.mpegurl";

static int write_text(struct cv_ladder *ladder, const char *name, const char *text,
                      struct cv_error *error)
{
    return cv_files_write(ladder->files, CV_LADDER_STREAM, name, playlist_type, text, strlen(text),
                          error);
}

int cv_ladder_write_poster(struct cv_ladder *ladder, const char *name, struct cv_error *error)
{
    if (!ladder->poster.best) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no picture to make a poster of");
    }
    cv_auto_free void *data = NULL;
    size_t size = 0;
    int result =
        cv_picture_jpeg(ladder->poster.best, POSTER_QUALITY, POSTER_SIDE_MAX, &data, &size, error);
    return result ? result
                  : cv_files_write(ladder->files, CV_LADDER_THUMBS, name, "image/jpeg", data, size,
                                   error);
}

/* NAME.m3u8 and, of pictures, NAME_keys.m3u8. */
static int write_media(struct cv_ladder *ladder, const struct cv_segment_list *list,
                       struct cv_playlist_names names, int target, struct cv_error *error)
{
    cv_auto_free char *file = NULL;
    cv_auto_free char *text = NULL;
    int result = cv_format(&file, error, "%s.m3u8", names.name);
    result = result ? result : cv_playlist_media(list, &names, target, true, &text, error);
    result = result ? result : write_text(ladder, file, text, error);
    if (result != 0 || list->key_count == 0) {
        return result;
    }
    cv_auto_free char *keys_file = NULL;
    cv_auto_free char *keys = NULL;
    result = cv_format(&keys_file, error, "%s_keys.m3u8", names.name);
    result = result ? result : cv_playlist_key_frames(list, &names, &keys, error);
    return result ? result : write_text(ladder, keys_file, keys, error);
}

/* ---- before the end -------------------------------------------------------------------------- */

/* NAME.m3u8 of the first `count` segments; *ret_list is them. */
static int write_early(struct cv_ladder *ladder, struct cv_segments *segments, size_t count,
                       struct cv_segment_list *ret_list, struct cv_error *error)
{
    struct cv_playlist_names names = cv_segments_names(segments);
    cv_auto_free char *file = NULL;
    cv_auto_free char *text = NULL;
    int result = cv_segments_snapshot(segments, count, ret_list, error);
    result = result ? result : cv_format(&file, error, "%s.m3u8", names.name);
    result =
        result ? result : cv_playlist_media(ret_list, &names, CV_HLS_TARGET_S, false, &text, error);
    return result ? result
                  : cv_files_write_provisional(ladder->files, file, playlist_type, text,
                                               strlen(text), error);
}

static struct cv_playlist_sound describe_sound(const struct cv_ladder *ladder, int number)
{
    const struct cv_ladder_track *track = &ladder->sounds[number];
    return (struct cv_playlist_sound){
        .name = track->name,
        .language = ladder->source->tracks[number].language,
        .title = ladder->source->tracks[number].title,
        .codecs = cv_segments_codec(track->segments),
        .list = cv_segments_list(track->segments),
    };
}

static int write_early_index(struct cv_ladder *ladder, struct cv_segments *pictures,
                             const struct cv_segment_list *list,
                             const struct cv_segment_list *sound_list, struct cv_error *error)
{
    const struct cv_rung_size *size = &ladder->sizes[ladder->count - 1];
    struct cv_playlist_variant variant = {
        .name = cv_segments_names(pictures).name,
        .codecs = cv_segments_codec(pictures),
        .width = size->width,
        .height = size->height,
        .frame_rate = fmin(cv_segment_list_frame_rate(list), FRAME_RATE_MAX),
        .list = list,
    };
    struct cv_playlist_sound sound = {0};
    if (ladder->sound_count > 0) {
        sound = describe_sound(ladder, 0);
        sound.list = sound_list;
    }
    cv_auto_free char *text = NULL;
    int result = cv_playlist_multivariant(&variant, 1, &sound, ladder->sound_count > 0,
                                          CV_HLS_TARGET_S, false, &text, error);
    return result ? result
                  : cv_files_write_provisional(ladder->files, "index.m3u8", playlist_type, text,
                                               strlen(text), error);
}

/* Playlists of the smallest rendition's first segments, and, once, the index that names them. */
static int publish_early(struct cv_ladder *ladder, size_t count, size_t sound_count,
                         struct cv_error *error)
{
    struct cv_segments *pictures = cv_rung_segments(ladder->rungs[ladder->count - 1]);
    struct cv_segment_list list = {0}, sound_list = {0};
    int result = write_early(ladder, pictures, count, &list, error);
    if (result == 0 && ladder->sound_count > 0) {
        result = write_early(ladder, ladder->sounds[0].segments, sound_count, &sound_list, error);
    }
    if (result == 0 && ladder->early == 0) {
        result = write_early_index(ladder, pictures, &list, &sound_list, error);
    }
    cv_segment_list_deinit(&list);
    cv_segment_list_deinit(&sound_list);
    ladder->early = count;
    return result;
}

static size_t told(struct cv_segments *segments)
{
    return segments ? cv_segments_told(segments) : 0;
}

int cv_ladder_tell(struct cv_ladder *ladder, struct cv_error *error)
{
    /* Counted before the files are told of: what is named has been told of. */
    struct cv_rung *smallest = ladder->rungs[ladder->count - 1];
    size_t count = ladder->progressive && smallest ? told(cv_rung_segments(smallest)) : 0;
    size_t sound_count = told(ladder->sounds[0].segments);
    int result = cv_files_drain(ladder->files, ladder->finished, ladder->opaque, error);
    if (result != 0 || count == ladder->early || (ladder->sound_count > 0 && sound_count == 0) ||
        ladder->published) {
        return result;
    }
    result = publish_early(ladder, count, sound_count, error);
    return result ? result : cv_files_drain(ladder->files, ladder->finished, ladder->opaque, error);
}

/* ---- at the end ------------------------------------------------------------------------------ */

static size_t describe_all(const struct cv_ladder *ladder, struct cv_playlist_variant *variants,
                           char names[][CV_LADDER_NAME_SIZE])
{
    for (size_t i = 0; i < ladder->count; i++) {
        const struct cv_segment_list *list = cv_ladder_list(ladder, i);
        variants[i] = (struct cv_playlist_variant){
            .name = cv_ladder_names(ladder, i, names[i]).name,
            .codecs = cv_ladder_codec(ladder, i),
            .width = ladder->sizes[i].width,
            .height = ladder->sizes[i].height,
            /* Jitter may put a frame too many into one segment; the long run counts. */
            .frame_rate = fmin(cv_segment_list_frame_rate(list), FRAME_RATE_MAX),
            .list = list,
        };
    }
    return ladder->count;
}

int cv_ladder_publish(struct cv_ladder *ladder, struct cv_error *error)
{
    struct cv_playlist_variant variants[CV_LADDER_RUNGS_MAX];
    struct cv_playlist_sound sounds[CV_MEDIA_TRACKS_MAX];
    char names[CV_LADDER_RUNGS_MAX][CV_LADDER_NAME_SIZE];
    size_t count = describe_all(ladder, variants, names);
    int target = ladder->progressive ? CV_HLS_TARGET_S : 1; /* of a playlist it never changes */
    for (size_t i = 0; i < count; i++) {
        int own = cv_segment_list_target(variants[i].list);
        target = own > target ? own : target;
    }
    for (int i = 0; i < ladder->sound_count; i++) {
        sounds[i] = describe_sound(ladder, i);
        int own = cv_segment_list_target(sounds[i].list);
        target = own > target ? own : target;
    }
    ladder->published = true;
    int result = ladder->joins ? 0 : cv_ladder_write_poster(ladder, "poster.jpg", error);
    for (size_t i = 0; result == 0 && i < count; i++) {
        result = write_media(ladder, variants[i].list, cv_ladder_names(ladder, i, names[i]), target,
                             error);
    }
    for (int i = 0; result == 0 && i < ladder->sound_count; i++) {
        const struct cv_segments *segments = ladder->sounds[i].segments;
        result = write_media(ladder, cv_segments_list(segments), cv_segments_names(segments),
                             target, error);
    }
    cv_auto_free char *text = NULL;
    result = result ? result
                    : cv_playlist_multivariant(variants, count, sounds, (size_t)ladder->sound_count,
                                               target, true, &text, error);
    result = result ? result : write_text(ladder, "index.m3u8", text, error);
    return result ? result : cv_ladder_tell(ladder, error);
}

void cv_ladder_summarize(const struct cv_ladder *ladder, int64_t end_us,
                         struct cv_ladder_summary *summary)
{
    *summary = (struct cv_ladder_summary){
        .count = ladder->count,
        .duration_us = end_us,
        .sound = ladder->sound_count > 0,
        .sprite_tiles = ladder->joins ? ladder->joined_tiles : cv_sprites_tiles(ladder->sprites),
    };
    for (size_t i = 0; i < ladder->count; i++) {
        const struct cv_segment_list *list = cv_ladder_list(ladder, i);
        struct cv_rendition *rendition = &summary->renditions[i];
        *rendition = (struct cv_rendition){
            .width = ladder->sizes[i].width,
            .height = ladder->sizes[i].height,
            .frames = cv_ladder_frames(ladder, i),
            .segments = (int)list->count,
            .bandwidth = cv_segment_list_peak(list, cv_segment_list_target(list)),
            .average_bandwidth = cv_segment_list_average(list),
        };
        (void)cv_ladder_names(ladder, i, rendition->name);
        (void)snprintf(rendition->codec, sizeof(rendition->codec), "%s",
                       cv_ladder_codec(ladder, i));
    }
}
