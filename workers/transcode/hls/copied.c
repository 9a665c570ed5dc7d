/* The functions of a ladder that copies the source's pictures as its largest rendition. */
#include "workers/transcode/hls/ladder_internal.h"

#include <limits.h>

size_t cv_ladder_sizes(const struct cv_ladder_params *params, bool copied,
                       struct cv_rendition_size sizes[CV_LADDER_RENDITIONS_MAX])
{
    /* An estimate: with a shorter side below 720, small letters of a screen of 1080 have few pixels
     * left. How well people can read the renditions was not measured. */
    static const int readable[] = {1080, 720};
    bool is_asked = params->short_side_count > 0, reads = params->for_reading && !is_asked;
    const int *sides = reads ? readable : params->short_sides;
    size_t count = reads ? CV_COUNT(readable) : params->short_side_count;
    int width, height;
    cv_shown_size(params->source, &width, &height);
    return copied ? cv_ladder_plan_copied(width, height, sides, count,
                                          !is_asked || params->any_size, sizes)
                  : cv_ladder_plan(width, height, sides, count, sizes);
}

/* Checks the codec against the settings. All browsers play H.264; other codecs need an H.264
 * rendition beside them. */
static const char *refuse_codec(const struct cv_ladder_params *params, enum AVCodecID codec,
                                size_t renditions)
{
    bool is_hevc = codec == AV_CODEC_ID_HEVC, is_av1 = codec == AV_CODEC_ID_AV1;
    if (codec == AV_CODEC_ID_H264) {
        return NULL;
    }
    if (!is_hevc && !is_av1) {
        return "it is not H.264";
    }
    if (is_hevc ? !params->copies_hevc : !params->copies_av1) {
        return is_hevc ? "it is HEVC, which CORTANA_COPY_CODECS does not name"
                       : "it is AV1, which CORTANA_COPY_CODECS does not name";
    }
    return renditions < 2
               ? "some browsers do not play its codec, and no smaller rendition is asked for"
               : NULL;
}

bool cv_ladder_suits(const struct cv_ladder_params *params, const AVCodecParameters *codec,
                     char reason[CV_LADDER_REASON_SIZE])
{
    struct cv_rendition_size sizes[CV_LADDER_RENDITIONS_MAX];
    size_t count = cv_ladder_sizes(params, true, sizes);
    bool has_size = count > 0;
    const char *refusal = params->format != CV_SEGMENT_MP4 ? "segments of MPEG-TS are asked for"
                          : !has_size                      ? "no rendition of its size is asked for"
                                                           : NULL;
    const char *other = refuse_codec(params, codec->codec_id, count);
    if (other) {
        (void)snprintf(reason, CV_LADDER_REASON_SIZE, "%s", other);
        return false;
    }
    int max_rate = has_size ? sizes[0].max_rate : INT_MAX;
    if (!cv_copy_suits(params->source, codec, params->source_bytes, max_rate, reason)) {
        return false; /* reasons of the source are reported before reasons of the request */
    }
    if (refusal) {
        (void)snprintf(reason, CV_LADDER_REASON_SIZE, "%s", refusal);
    }
    return !refusal;
}

int cv_ladder_open_copy(struct cv_ladder *ladder, const AVCodecParameters *codec,
                        struct cv_error *error)
{
    char name[CV_LADDER_NAME_SIZE];
    struct cv_copy_params params = {
        .codec = codec,
        .name = cv_ladder_names(ladder, 0, name).name,
        .max_rate = ladder->sizes[0].max_rate,
        .from = av_rescale(ladder->chunk.from_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE),
        .until = ladder->chunk.until_us == INT64_MAX
                     ? INT64_MAX
                     : av_rescale(ladder->chunk.until_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE),
        .files = ladder->files,
    };
    return cv_copy_new(&params, &ladder->copy, error);
}

int cv_ladder_packet(void *opaque, const AVPacket *packet, int64_t pts_us, struct cv_error *error)
{
    struct cv_ladder *ladder = opaque;
    return ladder->copy ? cv_copy_packet(ladder->copy, packet, pts_us, error) : 0;
}

const char *cv_ladder_refusal(const struct cv_ladder *ladder)
{
    const char *reason = ladder->copy ? cv_copy_refusal(ladder->copy) : NULL;
    return reason ? reason : "";
}

void cv_ladder_refuse(struct cv_ladder *ladder, const char *reason)
{
    if (ladder->copy) {
        cv_copy_refuse(ladder->copy, reason);
    }
}

/* The small pictures of a part are chosen by its times, wherever its key pictures are. */
static int show_small(struct cv_ladder *ladder, int64_t time_us, struct cv_error *error)
{
    if (time_us >= ladder->chunk.until_us) {
        return 0;
    }
    CV_TRY(cv_sprites_show(ladder->sprites, ladder->last, time_us, error));
    return time_us < ladder->chunk.from_us
               ? 0
               : cv_poster_offer(&ladder->poster, ladder->last, time_us, error);
}

int cv_ladder_show_copied(struct cv_ladder *ladder, int64_t ticks, struct cv_error *error)
{
    enum cv_copy_place place = cv_copy_frame(ladder->copy, ticks);
    int result = show_small(ladder, av_rescale(ticks, AV_TIME_BASE, CV_PLAYLIST_CLOCK), error);
    if (place == CV_COPY_BEHIND) {
        ladder->is_full = true;
        ladder->full_ticks = ticks;
    }
    bool is_shown = place == CV_COPY_PICTURE || place == CV_COPY_KEY;
    if (result != 0 || !is_shown || cv_copy_refusal(ladder->copy) ||
        ladder->first_encoded == ladder->count) {
        return result;
    }
    return cv_rendition_show(ladder->renditions[ladder->first_encoded], ladder->last, ticks,
                             place == CV_COPY_KEY, error);
}

int cv_ladder_end_copied(struct cv_ladder *ladder, int64_t end, struct cv_error *error)
{
    CV_TRY(cv_copy_finish(ladder->copy, end, error));
    int64_t end_us = av_rescale(end, AV_TIME_BASE, CV_PLAYLIST_CLOCK);
    return cv_copy_refusal(ladder->copy) ? CV_LADDER_UNSUITABLE
                                         : cv_sprites_finish(ladder->sprites, end_us, error);
}
