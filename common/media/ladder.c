#include "common/media/averror.h"
#include "common/media/cadence.h"
#include "common/media/cleanup.h"
#include "common/media/ladder_internal.h"

#include <math.h>

enum {
    PAUSE_US = 500 * 1000, /* a picture that stands longer is shown again at key times */
    FRAME_RATE_MAX = 60,   /* Apple's authoring rules forbid more */
    HD_SIDE = 720,         /* from here on, colours that say nothing are BT.709 */
};

/* ---- life ------------------------------------------------------------------------------------ */

int cv_ladder_new(const struct cv_ladder_params *params, struct cv_ladder **ret_ladder,
                  struct cv_error *error)
{
    cv_media_capture_log();
    cv_auto(cv_ladder_free) struct cv_ladder *ladder = calloc(1, sizeof(*ladder));
    if (!ladder || !(ladder->packet = av_packet_alloc())) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for renditions");
    }
    ladder->source = params->source;
    ladder->threads = params->threads < 1 ? 1 : params->threads;
    ladder->format = params->format;
    ladder->progressive = params->progressive;
    ladder->finished = params->finished;
    ladder->opaque = params->opaque;
    ladder->last_ticks = INT64_MIN;
    ladder->is_chunk = params->chunk != NULL;
    ladder->chunk = params->chunk ? *params->chunk : (struct cv_ladder_chunk){0, 0, INT64_MAX};
    ladder->joins = params->joins;
    ladder->poster_chunk = -1;
    ladder->poster_score = -1;
    int width, height;
    cv_ladder_shown_size(params->source, &width, &height);
    ladder->shape = params->source->sample_aspect;
    ladder->count =
        cv_ladder_plan(width, height, params->short_sides, params->short_side_count, ladder->sizes);
    if (ladder->count == 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "no rendition is asked for");
    }
    cv_cadence_init(&ladder->cadence, AV_TIME_BASE / FRAME_RATE_MAX, CV_HLS_KEY_US, PAUSE_US);
    ladder->cadence.grid_us = CV_HLS_SEGMENT_US;
    cv_poster_init(&ladder->poster, params->source->duration_us);
    int result = cv_files_new(params->directory, &ladder->files, error);
    result = result ? result
                    : cv_sprites_new(params->source->duration_us, params->chunk, ladder->files,
                                     &ladder->sprites, error);
    if (result == 0 && !ladder->is_chunk) {
        result = cv_ladder_open_sounds(ladder, error);
    }
    if (result != 0) {
        return result;
    }
    *ret_ladder = cv_take(ladder);
    return 0;
}

void cv_ladder_free(struct cv_ladder *ladder)
{
    if (ladder) {
        for (size_t i = 0; i < ladder->count; i++) {
            cv_rung_free(ladder->rungs[i]);
        }
        cv_ladder_close_sounds(ladder);
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

/* The encoder's threads, by how many of all pixels a rendition has. */
static int threads_of(const struct cv_ladder *ladder, size_t rung)
{
    double all = 0;
    for (size_t i = 0; i < ladder->count; i++) {
        all += (double)ladder->sizes[i].width * ladder->sizes[i].height;
    }
    double own = (double)ladder->sizes[rung].width * ladder->sizes[rung].height;
    int threads = (int)lrint(ladder->threads * own / all);
    return threads < 1 ? 1 : threads;
}

/* From the smallest up, since each hands its pictures to the next smaller one. */
static int open_rungs(struct cv_ladder *ladder, struct cv_error *error)
{
    const struct cv_media_info *source = ladder->source;
    double rate = source->frame_rate > FRAME_RATE_MAX ? FRAME_RATE_MAX : source->frame_rate;
    for (size_t i = ladder->count; i-- > 0;) {
        struct cv_rung_params params = {
            .size = ladder->sizes[i],
            .source_width = i > 0 ? ladder->sizes[i - 1].width : source->width,
            .source_height = i > 0 ? ladder->sizes[i - 1].height : source->height,
            .aspect = i > 0 ? (AVRational){1, 1} : ladder->shape,
            .frame_rate = rate,
            .threads = threads_of(ladder, i),
            .own_thread = ladder->threads > 1,
            .format = ladder->format,
            .first = (size_t)(ladder->chunk.from_us / CV_HLS_SEGMENT_US),
            .files = ladder->files,
            .next = i + 1 < ladder->count ? ladder->rungs[i + 1] : NULL,
            .poster = i == 0 ? &ladder->poster : NULL,
            .sprites = i + 1 == ladder->count ? ladder->sprites : NULL,
        };
        int result = cv_rung_new(&params, &ladder->rungs[i], error);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* Shows the newest picture from `pts_us` on. */
static int show(struct cv_ladder *ladder, int64_t pts_us, struct cv_error *error)
{
    int64_t ticks = av_rescale(pts_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    if (ticks <= ladder->last_ticks) {
        return 0; /* two frames within one tick: no player could show both */
    }
    ladder->last_ticks = ticks;
    if (pts_us >= ladder->chunk.until_us) {
        ladder->full_ticks = ladder->is_full ? ladder->full_ticks : ticks;
        ladder->is_full = true;
        return 0;
    }
    bool key = cv_cadence_show(&ladder->cadence, pts_us);
    if (pts_us < ladder->chunk.from_us) {
        return 0; /* another chunk's; here it says what follows it */
    }
    return cv_rung_show(ladder->rungs[0], ladder->last, ticks, key, error);
}

/* Shows the newest picture again wherever a pause until `until_us` asks for it. */
static int fill_pause(struct cv_ladder *ladder, int64_t until_us, struct cv_error *error)
{
    int64_t pts_us;
    while (!ladder->is_full &&
           (pts_us = cv_cadence_repeat(&ladder->cadence, until_us)) != INT64_MIN) {
        int result = show(ladder, pts_us, error);
        result = result ? result : cv_ladder_tell(ladder, error);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* Colours that the source does not name, named: players would guess by each rendition's own size,
 * and change them when they switch. */
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

int cv_ladder_frame(struct cv_ladder *ladder, const struct cv_video_frame *frame,
                    struct cv_error *error)
{
    if (ladder->is_full) {
        return CV_LADDER_FULL;
    }
    ladder->video_end_us = frame->pts_us + frame->duration_us;
    if (!cv_cadence_admit(&ladder->cadence, frame->pts_us)) {
        return 0;
    }
    bool is_first = ladder->last == NULL;
    int result = is_first ? open_rungs(ladder, error) : fill_pause(ladder, frame->pts_us, error);
    if (result != 0) {
        return result;
    }
    av_frame_free(&ladder->last);
    ladder->last = av_frame_clone(frame->picture);
    if (!ladder->last) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
    name_colours(ladder, ladder->last);
    if (is_first && frame->pts_us > 0 && ladder->chunk.from_us == 0) {
        /* Players start at a picture: it stands from the beginning. */
        result = show(ladder, 0, error);
        result = result ? result : fill_pause(ladder, frame->pts_us, error);
    }
    result = result ? result : show(ladder, frame->pts_us, error);
    result = result ? result : cv_ladder_tell(ladder, error);
    return result ? result : ladder->is_full ? CV_LADDER_FULL : CV_LADDER_TAKEN;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int end_pictures(struct cv_ladder *ladder, int64_t *ret_end_us, struct cv_error *error)
{
    if (!ladder->last) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no frame was given to the renditions");
    }
    int64_t sound_us = ladder->is_chunk ? ladder->heard_us : cv_ladder_sounds_end_us(ladder);
    int64_t end_us = sound_us > ladder->video_end_us ? sound_us : ladder->video_end_us;
    int result = fill_pause(ladder, end_us, error);
    *ret_end_us = end_us;
    int64_t end =
        ladder->is_full ? ladder->full_ticks : av_rescale(end_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    return result ? result : cv_rung_end(ladder->rungs[0], end, error);
}

static int join_rungs(struct cv_ladder *ladder, struct cv_error *error)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < ladder->count; i++) {
        result = cv_rung_join(ladder->rungs[i], error);
    }
    return result;
}

int cv_ladder_end_chunk(struct cv_ladder *ladder, struct cv_error *error)
{
    int64_t end_us;
    int result = end_pictures(ladder, &end_us, error);
    return result ? result : join_rungs(ladder, error);
}

int cv_ladder_finish(struct cv_ladder *ladder, struct cv_ladder_summary *ret_summary,
                     struct cv_error *error)
{
    int64_t end_us = 0;
    int result = 0;
    if (ladder->joins) {
        int64_t sound_us = cv_ladder_sounds_end_us(ladder);
        end_us = sound_us > ladder->video_end_us ? sound_us : ladder->video_end_us;
        cv_ladder_end_joined(ladder, end_us);
        result = cv_ladder_write_cues(ladder, error);
    } else {
        result = end_pictures(ladder, &end_us, error);
    }
    result = result ? result : cv_ladder_end_sounds(ladder, end_us, error);
    if (result == 0 && !ladder->joins) {
        result = join_rungs(ladder, error);
    }
    result = result ? result : cv_ladder_publish(ladder, error);
    if (result != 0) {
        return result;
    }
    cv_ladder_summarize(ladder, end_us, ret_summary);
    return 0;
}
