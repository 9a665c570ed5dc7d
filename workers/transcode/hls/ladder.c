#include "common/media/media.h"

#include "workers/transcode/hls/ladder_internal.h"

#include <math.h>
#include <string.h>

enum { FRAME_RATE_MAX = 60 }; /* Apple's authoring rules forbid more */

/* ---- sound ----------------------------------------------------------------------------------- */

/* A ladder that joins reads sound without pictures: if silence goes this far beyond the pictures, a
 * time stamp is wrong. */
enum { BEYOND_PICTURES_US = 10 * 1000 * 1000 };

/* Writes the packets that the encoder has ready to segments. */
static int collect(void *opaque, struct cv_error *error)
{
    struct cv_ladder_track *track = opaque;
    struct cv_ladder *ladder = track->ladder;
    for (;;) {
        int result = cv_sound_encoder_packet(track->encoder, ladder->packet, error);
        if (result != CV_SOUND_PACKET) {
            return result < 0 ? result : 0;
        }
        if (ladder->packet->pts < 0) {
            /* The encoder's priming is before time 0 and is dropped: players of segments do not
             * skip it, and with it pictures would be late by its length. */
            av_packet_unref(ladder->packet);
            continue;
        }
        ladder->packet->flags |= AV_PKT_FLAG_KEY;
        CV_TRY(cv_segments_write(track->segments, ladder->packet, error));
    }
}

static int open_track(struct cv_ladder *ladder, int number, struct cv_error *error)
{
    struct cv_ladder_track *track = &ladder->sounds[number];
    ladder->sound_count = number + 1;
    if (number == 0) {
        (void)snprintf(track->name, sizeof(track->name), "sound");
    } else {
        (void)snprintf(track->name, sizeof(track->name), "sound_%d", number + 1);
    }
    track->ladder = ladder;
    struct cv_sound_encoder_params encoder_params = {
        .global_header = cv_segments_wants_global_header(ladder->format),
        .cancel = ladder->cancel,
        .drain = collect,
        .opaque = track,
    };
    int result = cv_sound_encoder_new(&encoder_params, &track->encoder, error);
    struct cv_segments_params params = {
        .name = track->name,
        .format = ladder->format,
        .codec = result ? NULL : cv_sound_encoder_codec(track->encoder),
        .files = ladder->files,
    };
    return result ? result : cv_segments_new(&params, &track->segments, error);
}

static int open_sounds(struct cv_ladder *ladder, struct cv_error *error)
{
    for (int i = 0; i < ladder->source->track_count; i++) {
        CV_TRY(open_track(ladder, i, error));
    }
    return 0;
}

static void close_sounds(struct cv_ladder *ladder)
{
    for (int i = 0; i < ladder->sound_count; i++) {
        cv_segments_free(ladder->sounds[i].segments);
        cv_sound_encoder_free(ladder->sounds[i].encoder);
    }
}

static int64_t sounds_end_us(const struct cv_ladder *ladder)
{
    int64_t end_us = 0;
    for (int i = 0; i < ladder->sound_count; i++) {
        int64_t own_us = cv_sound_encoder_end_us(ladder->sounds[i].encoder);
        end_us = own_us > end_us ? own_us : end_us;
    }
    return end_us;
}

int cv_ladder_sound(struct cv_ladder *ladder, const struct cv_sound *sound, struct cv_error *error)
{
    if (ladder->is_chunk && sound->pts_us != AV_NOPTS_VALUE) {
        int64_t end_us = sound->pts_us + av_rescale(sound->samples->nb_samples, AV_TIME_BASE,
                                                    sound->samples->sample_rate);
        ladder->heard_us = end_us > ladder->heard_us ? end_us : ladder->heard_us;
    }
    if (sound->track >= ladder->sound_count) {
        return 0;
    }
    struct cv_ladder_track *track = &ladder->sounds[sound->track];
    struct cv_sound believed = *sound;
    if (ladder->joins && sound->pts_us > ladder->video_end_us + BEYOND_PICTURES_US) {
        believed.pts_us = AV_NOPTS_VALUE;
    }
    CV_TRY(cv_sound_encoder_write(track->encoder, &believed, error));
    CV_TRY(collect(track, error));
    return cv_ladder_report(ladder, error);
}

static int end_sounds(struct cv_ladder *ladder, int64_t end_us, struct cv_error *error)
{
    int64_t end = av_rescale(end_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    for (int i = 0; i < ladder->sound_count; i++) {
        struct cv_ladder_track *track = &ladder->sounds[i];
        CV_TRY(cv_sound_encoder_finish(track->encoder, end_us, error));
        CV_TRY(collect(track, error));
        CV_TRY(cv_segments_finish(track->segments, end, error));
    }
    return 0;
}

/* ---- reporting files and playlists ----------------------------------------------------------- */

enum {
    POSTER_QUALITY = 85, /* SSIM 0.994; WebP as sharp has 0.44 of the bytes, but another name */
    POSTER_SIDE_MAX = 1280,
};

static int write_text(struct cv_ladder *ladder, const char *name, const char *text,
                      struct cv_error *error)
{
    return cv_files_write(ladder->files, CV_LADDER_STREAM, name, text, strlen(text), error);
}

int cv_ladder_write_poster(struct cv_ladder *ladder, const char *name, struct cv_error *error)
{
    if (!ladder->poster.best) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no picture to make a poster of");
    }
    cv_auto_free void *data = NULL;
    size_t size = 0;
    CV_TRY(
        cv_picture_jpeg(ladder->poster.best, POSTER_QUALITY, POSTER_SIDE_MAX, &data, &size, error));
    return cv_files_write(ladder->files, CV_LADDER_THUMBS, name, data, size, error);
}

/* Writes NAME.m3u8 and, for pictures, NAME_keys.m3u8. */
static int write_media(struct cv_ladder *ladder, const struct cv_segment_list *list,
                       struct cv_playlist_names names, int target, struct cv_error *error)
{
    cv_auto_free char *file = NULL;
    cv_auto_free char *text = NULL;
    CV_TRY(cv_format(&file, error, "%s.m3u8", names.name));
    CV_TRY(cv_playlist_media(list, &names, target, &text, error));
    CV_TRY(write_text(ladder, file, text, error));
    if (list->key_count == 0) {
        return 0;
    }
    cv_auto_free char *keys_file = NULL;
    cv_auto_free char *keys = NULL;
    CV_TRY(cv_format(&keys_file, error, "%s_keys.m3u8", names.name));
    CV_TRY(cv_playlist_key_frames(list, &names, &keys, error));
    return write_text(ladder, keys_file, keys, error);
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

int cv_ladder_report(struct cv_ladder *ladder, struct cv_error *error)
{
    return cv_files_drain(ladder->files, ladder->finished, ladder->opaque, error);
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
            /* Jitter may put one frame too many into a segment; only the long run matters. */
            .frame_rate = fmin(cv_segment_list_frame_rate(list), FRAME_RATE_MAX),
            .list = list,
        };
    }
    return ladder->count;
}

static int publish(struct cv_ladder *ladder, struct cv_error *error)
{
    struct cv_playlist_variant variants[CV_LADDER_RENDITIONS_MAX];
    struct cv_playlist_sound sounds[CV_MEDIA_TRACKS_MAX];
    char names[CV_LADDER_RENDITIONS_MAX][CV_LADDER_NAME_SIZE];
    size_t count = describe_all(ladder, variants, names);
    int target = 1;
    for (size_t i = 0; i < count; i++) {
        int own = cv_segment_list_target(variants[i].list);
        target = own > target ? own : target;
    }
    for (int i = 0; i < ladder->sound_count; i++) {
        sounds[i] = describe_sound(ladder, i);
        int own = cv_segment_list_target(sounds[i].list);
        target = own > target ? own : target;
    }
    CV_TRY(ladder->joins ? 0 : cv_ladder_write_poster(ladder, "poster.jpg", error));
    for (size_t i = 0; i < count; i++) {
        CV_TRY(write_media(ladder, variants[i].list, cv_ladder_names(ladder, i, names[i]), target,
                           error));
    }
    for (int i = 0; i < ladder->sound_count; i++) {
        const struct cv_segments *segments = ladder->sounds[i].segments;
        CV_TRY(write_media(ladder, cv_segments_list(segments), cv_segments_names(segments), target,
                           error));
    }
    const struct cv_playlist_index index = {variants, count, sounds, (size_t)ladder->sound_count,
                                            target};
    cv_auto_free char *text = NULL;
    CV_TRY(cv_playlist_multivariant(&index, &text, error));
    CV_TRY(write_text(ladder, "index.m3u8", text, error));
    return cv_ladder_report(ladder, error);
}

static void summarize(const struct cv_ladder *ladder, int64_t end_us,
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
        struct cv_rendition_summary *rendition = &summary->renditions[i];
        *rendition = (struct cv_rendition_summary){
            .width = ladder->sizes[i].width,
            .height = ladder->sizes[i].height,
            .frames = cv_ladder_frames(ladder, i),
            .segments = (int)list->count,
            .bandwidth = cv_segment_list_peak(list, cv_segment_list_target(list)),
            .average_bandwidth = cv_segment_list_average(list),
            .copied = i < ladder->first_encoded,
        };
        (void)cv_ladder_names(ladder, i, rendition->name);
        (void)snprintf(rendition->codec, sizeof(rendition->codec), "%s",
                       cv_ladder_codec(ladder, i));
    }
}

enum {
    HD_SIDE = 720, /* from this size on, unspecified colours are BT.709 */
};

/* ---- life ------------------------------------------------------------------------------------ */

int cv_ladder_new(const struct cv_ladder_params *params, struct cv_ladder **ret_ladder,
                  struct cv_error *error)
{
    cv_media_capture_log();
    cv_auto(cv_ladder_free) struct cv_ladder *ladder = calloc(1, sizeof(*ladder));
    CV_TRY_MEMORY(ladder && (ladder->packet = av_packet_alloc()), error, "renditions");
    ladder->source = params->source;
    ladder->cancel = params->cancel;
    ladder->threads = params->threads < 1 ? 1 : params->threads;
    ladder->format = params->format;
    ladder->finished = params->finished;
    ladder->opaque = params->opaque;
    ladder->last_ticks = INT64_MIN;
    ladder->is_chunk = params->chunk != NULL;
    ladder->chunk = params->chunk ? *params->chunk : (struct cv_ladder_chunk){0, 0, INT64_MAX};
    ladder->joins = params->joins;
    ladder->poster_chunk = -1;
    ladder->poster_score = -1;
    ladder->shape = params->source->sample_aspect;
    ladder->first_encoded = params->copied ? 1 : 0;
    ladder->count = cv_ladder_sizes(params, params->copied != NULL, ladder->sizes);
    if (ladder->count == 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "no rendition is asked for");
    }
    cv_cadence_init(&ladder->cadence, AV_TIME_BASE / FRAME_RATE_MAX, CV_HLS_KEY_US,
                    CV_LADDER_PAUSE_US);
    ladder->cadence.grid_us = CV_HLS_SEGMENT_US;
    cv_cadence_expect(&ladder->cadence, params->source->frame_rate);
    cv_poster_init(&ladder->poster, params->source->duration_us);
    CV_TRY(cv_files_new(params->directory, &ladder->files, error));
    CV_TRY(cv_sprites_new(params->source->duration_us, params->chunk, ladder->files,
                          &ladder->sprites, error));
    if (params->copied && !params->joins) {
        CV_TRY(cv_ladder_open_copy(ladder, params->copied, error));
    }
    if (!ladder->is_chunk) {
        CV_TRY(open_sounds(ladder, error));
    }
    *ret_ladder = cv_take(ladder);
    return 0;
}

void cv_ladder_free(struct cv_ladder *ladder)
{
    if (ladder) {
        for (size_t i = 0; i < ladder->count; i++) {
            cv_rendition_free(ladder->renditions[i]);
        }
        cv_copy_free(ladder->copy);
        close_sounds(ladder);
        cv_ladder_free_joined(ladder);
        cv_sprites_free(ladder->sprites);
        cv_poster_deinit(&ladder->poster);
        av_frame_free(&ladder->last);
        av_packet_free(&ladder->packet);
        cv_files_free(ladder->files);
        free(ladder);
    }
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* The number of an encoder's threads, by the rendition's share of all pixels. */
static int threads_of(const struct cv_ladder *ladder, size_t rendition)
{
    double all = 0;
    for (size_t i = ladder->first_encoded; i < ladder->count; i++) {
        all += (double)ladder->sizes[i].width * ladder->sizes[i].height;
    }
    double own = (double)ladder->sizes[rendition].width * ladder->sizes[rendition].height;
    int threads = (int)lrint(ladder->threads * own / all);
    return threads < 1 ? 1 : threads;
}

/* Opens the renditions from the smallest up, because each passes pictures on to the next smaller
 * one. */
static int open_renditions(struct cv_ladder *ladder, struct cv_error *error)
{
    const struct cv_media_info *source = ladder->source;
    double rate = source->frame_rate > FRAME_RATE_MAX ? FRAME_RATE_MAX : source->frame_rate;
    for (size_t i = ladder->count; i-- > ladder->first_encoded;) {
        bool is_first = i == ladder->first_encoded;
        struct cv_rendition_params params = {
            .size = ladder->sizes[i],
            .source_width = is_first ? source->width : ladder->sizes[i - 1].width,
            .source_height = is_first ? source->height : ladder->sizes[i - 1].height,
            .aspect = is_first ? ladder->shape : (AVRational){1, 1},
            .frame_rate = rate,
            .threads = threads_of(ladder, i),
            .own_thread = ladder->threads > 1,
            .format = ladder->format,
            .goes_on = ladder->chunk.from_us > 0,
            .files = ladder->files,
            .next = i + 1 < ladder->count ? ladder->renditions[i + 1] : NULL,
            /* For a copy, cv_ladder_show_copied makes the small pictures. */
            .poster = i == 0 ? &ladder->poster : NULL,
            .sprites = i + 1 == ladder->count && !ladder->copy ? ladder->sprites : NULL,
        };
        CV_TRY(cv_rendition_new(&params, &ladder->renditions[i], error));
    }
    return 0;
}

/* Shows the newest picture from `pts_us` on. */
static int show(struct cv_ladder *ladder, int64_t pts_us, struct cv_error *error)
{
    int64_t ticks = av_rescale(pts_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    if (ticks <= ladder->last_ticks) {
        return 0; /* two frames in one tick: a player could show only one */
    }
    ladder->last_ticks = ticks;
    if (pts_us >= ladder->chunk.until_us) {
        ladder->full_ticks = ladder->is_full ? ladder->full_ticks : ticks;
        ladder->is_full = true;
        return 0;
    }
    bool key = cv_cadence_show(&ladder->cadence, pts_us);
    if (pts_us < ladder->chunk.from_us) {
        return 0; /* an earlier chunk shows it; the frames after it depend on it */
    }
    return cv_rendition_show(ladder->renditions[0], ladder->last, ticks, key, error);
}

/* Repeats the newest picture where a pause until `until_us` requires it. */
static int fill_pause(struct cv_ladder *ladder, int64_t until_us, struct cv_error *error)
{
    int64_t pts_us;
    while (!ladder->is_full &&
           (pts_us = cv_cadence_repeat(&ladder->cadence, until_us)) != INT64_MIN) {
        if (cv_cancel_level(ladder->cancel) >= CV_CANCEL_ABORT) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped while a picture stood");
        }
        CV_TRY(show(ladder, pts_us, error));
        CV_TRY(cv_ladder_report(ladder, error));
    }
    return 0;
}

/* Sets colour properties that the source leaves unspecified. Otherwise players would guess them by
 * each rendition's size, and the colours would change when they switch. */
static void name_colours(const struct cv_ladder *ladder, AVFrame *picture)
{
    const struct cv_media_info *source = ladder->source;
    bool is_high = (source->width < source->height ? source->width : source->height) >= HD_SIDE;
    if (picture->colorspace == AVCOL_SPC_UNSPECIFIED) {
        picture->colorspace = is_high ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
    }
    if (picture->color_primaries == AVCOL_PRI_UNSPECIFIED) {
        picture->color_primaries = is_high ? AVCOL_PRI_BT709 : AVCOL_PRI_SMPTE170M;
    }
    if (picture->color_trc == AVCOL_TRC_UNSPECIFIED) {
        picture->color_trc = is_high ? AVCOL_TRC_BT709 : AVCOL_TRC_SMPTE170M;
    }
}

/* Adds a picture of a copied source. It is shown at its own time, and is a key picture if it is one
 * in the source. The first one is shown from the beginning. */
static int copied_frame(struct cv_ladder *ladder, const struct cv_video_frame *frame,
                        struct cv_error *error)
{
    bool is_first = ladder->last == NULL;
    int result = is_first ? open_renditions(ladder, error) : 0;
    av_frame_free(&ladder->last);
    ladder->last = result ? NULL : av_frame_clone(frame->picture);
    if (!ladder->last) {
        return result ? result
                      : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
    name_colours(ladder, ladder->last);
    bool begins = is_first && ladder->chunk.from_us == 0;
    int64_t ticks = begins ? 0 : av_rescale(frame->pts_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    result = cv_ladder_show_copied(ladder, ticks, error);
    result = result ? result : cv_ladder_report(ladder, error);
    if (result == 0 && cv_copy_refusal(ladder->copy)) {
        return CV_LADDER_UNSUITABLE;
    }
    return result ? result : ladder->is_full ? CV_LADDER_FULL : CV_LADDER_TAKEN;
}

int cv_ladder_frame(struct cv_ladder *ladder, const struct cv_video_frame *frame,
                    struct cv_error *error)
{
    if (ladder->is_full) {
        return CV_LADDER_FULL;
    }
    ladder->video_end_us = frame->pts_us + frame->duration_us;
    if (ladder->copy) {
        return copied_frame(ladder, frame, error);
    }
    if (!cv_cadence_admit(&ladder->cadence, frame->pts_us)) {
        return 0;
    }
    bool is_first = ladder->last == NULL;
    CV_TRY(is_first ? open_renditions(ladder, error) : fill_pause(ladder, frame->pts_us, error));
    av_frame_free(&ladder->last);
    ladder->last = av_frame_clone(frame->picture);
    CV_TRY_MEMORY(ladder->last, error, "a picture");
    name_colours(ladder, ladder->last);
    if (is_first && frame->pts_us > 0 && ladder->chunk.from_us == 0) {
        /* Players start at a picture, so the first one is shown from the beginning. */
        CV_TRY(show(ladder, 0, error));
        CV_TRY(fill_pause(ladder, frame->pts_us, error));
    }
    CV_TRY(show(ladder, frame->pts_us, error));
    CV_TRY(cv_ladder_report(ladder, error));
    return ladder->is_full ? CV_LADDER_FULL : CV_LADDER_TAKEN;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Repeats the newest picture until the last group has as many pictures as players need. */
static int fill_last_group(struct cv_ladder *ladder, int64_t end_us, struct cv_error *error)
{
    const struct cv_cadence *cadence = &ladder->cadence;
    int64_t from_us = cadence->last_us, missing = CV_LADDER_LAST_PICTURES - cadence->in_group;
    bool stands = cadence->group_us == 0 || end_us - cadence->group_us > CV_LADDER_PAUSE_US;
    if (ladder->is_full || !stands || ladder->source->track_count == 0) {
        return 0;
    }
    for (int64_t i = 1; i <= missing; i++) {
        CV_TRY(show(ladder, from_us + (end_us - from_us) * i / (missing + 1), error));
    }
    return 0;
}

static int end_pictures(struct cv_ladder *ladder, int64_t *ret_end_us, struct cv_error *error)
{
    if (!ladder->last) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no frame was given to the renditions");
    }
    int64_t sound_us = ladder->is_chunk ? ladder->heard_us : sounds_end_us(ladder);
    int64_t end_us = cv_presentation_us(ladder->source, ladder->video_end_us, sound_us);
    int result = ladder->copy ? 0 : fill_pause(ladder, end_us, error);
    result = result || ladder->copy ? result : fill_last_group(ladder, end_us, error);
    *ret_end_us = end_us;
    int64_t end =
        ladder->is_full ? ladder->full_ticks : av_rescale(end_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    if (result == 0 && ladder->copy) {
        result = cv_ladder_end_copied(ladder, end, error);
    }
    if (result != 0 || ladder->first_encoded == ladder->count) {
        return result;
    }
    return cv_rendition_end(ladder->renditions[ladder->first_encoded], end, error);
}

static int join_renditions(struct cv_ladder *ladder, struct cv_error *error)
{
    for (size_t i = ladder->first_encoded; i < ladder->count; i++) {
        CV_TRY(cv_rendition_join(ladder->renditions[i], error));
    }
    return 0;
}

int cv_ladder_end_chunk(struct cv_ladder *ladder, struct cv_error *error)
{
    int64_t end_us;
    CV_TRY(end_pictures(ladder, &end_us, error));
    return join_renditions(ladder, error);
}

int cv_ladder_finish(struct cv_ladder *ladder, struct cv_ladder_summary *ret_summary,
                     struct cv_error *error)
{
    int64_t end_us = 0;
    if (ladder->joins) {
        int64_t sound_us = sounds_end_us(ladder);
        end_us = cv_presentation_us(ladder->source, ladder->video_end_us, sound_us);
        cv_ladder_end_joined(ladder, end_us);
        CV_TRY(cv_ladder_write_cues(ladder, error));
    } else {
        CV_TRY(end_pictures(ladder, &end_us, error));
    }
    CV_TRY(end_sounds(ladder, end_us, error));
    if (!ladder->joins) {
        CV_TRY(join_renditions(ladder, error));
    }
    CV_TRY(publish(ladder, error));
    summarize(ladder, end_us, ret_summary);
    return 0;
}
