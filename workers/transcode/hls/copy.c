#include "workers/transcode/hls/copy.h"

#include "workers/transcode/hls/ladder_internal.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    FRAME_RATE_MAX = 61,
    PEAK_TO_MEAN = 2,
    GROUP_BYTES_MAX = 64 << 20, /* bytes in memory; 10 s at 50 Mbit/s */
};

/* How long before a picture is shown its decoding may begin. hls.js, which ignores edit lists,
 * tolerates pictures that are placed 0.2 s away from where it expects them (its bufferPadding). */
static const int64_t reorder_ticks_max = CV_PLAYLIST_CLOCK / 5;

/* What a header says of reordering is exceeded where pictures stand a little longer than usual. */
static const double reorder_slack = 1.25;

/* The longest group of pictures: a player fetches a whole group before it can switch or seek. */
static const int64_t group_ticks_max = INT64_C(21) * CV_PLAYLIST_CLOCK / 2;

enum copy_place {
    CV_COPY_BEFORE, /* belongs to the part before */
    CV_COPY_PICTURE,
    CV_COPY_KEY,
    CV_COPY_BEHIND, /* belongs to the next part: no more frames are needed */
};

struct picture {
    AVPacket *packet;
    int64_t ticks;
};

struct times {
    int64_t *values;
    size_t first, count;
};

struct cv_copy {
    struct cv_h264_sets sets;
    struct cv_segments *segments;
    int max_rate;          /* highest mean bits per second; the peak may be twice that */
    int64_t reorder;       /* ticks from decoding a picture to showing it, at most */
    struct picture *group; /* pictures since the newest key picture, in decoding order */
    size_t count;
    int64_t group_bytes, frames;
    int64_t end; /* one tick after the newest picture of the groups before */
    int64_t from,
        until;     /* ticks: a part begins at the first key picture shown at or after this time */
    int64_t begin; /* time of the part's first key picture */
    bool has_begun, is_full, has_sound;
    struct times keys;     /* times of groups whose key picture was not decoded yet */
    struct times expected; /* times of pictures of complete groups, in order, not decoded yet */
    struct times decoded;  /* times of decoded pictures whose group is not complete yet */
    char reason[CV_LADDER_REASON_SIZE];
};

/* ---- the header ------------------------------------------------------------------------------ */

static const char *refuse_picture(const struct cv_media_info *source,
                                  const AVCodecParameters *codec)
{
    bool upright = source->rotation == 0 && !source->mirrored;
    bool square = source->sample_aspect.num == source->sample_aspect.den;
    bool indexed =
        strcmp(source->container, "mov") == 0 || strcmp(source->container, "matroska") == 0;
    if (!indexed) {
        return "its container is neither MP4 nor Matroska";
    }
    if (codec->format != AV_PIX_FMT_YUV420P && codec->format != AV_PIX_FMT_YUVJ420P) {
        return "its pictures are not 4:2:0 of 8 bits";
    }
    if (!upright || !square || source->interlaced || source->high_dynamic_range) {
        return !upright             ? "its pictures have to be turned"
               : !square            ? "its pixels are not square"
               : source->interlaced ? "its pictures are interlaced"
                                    : "its colours are those of high dynamic range";
    }
    if (source->width % 2 != 0 || source->height % 2 != 0) {
        return "its sides are odd";
    }
    return source->frame_rate > FRAME_RATE_MAX ? "it has more than 60 pictures a second" : NULL;
}

static bool read_sets(struct cv_h264_sets *sets, const AVCodecParameters *codec)
{
    size_t size = codec->extradata_size > 0 ? (size_t)codec->extradata_size : 0;
    return cv_h264_sets_read(sets, codec->extradata, size);
}

/* The longest time between decoding and showing a picture, according to the header; ticks. */
static double reordering(const struct cv_media_info *source, const AVCodecParameters *codec)
{
    return source->frame_rate > 0 ? codec->video_delay * CV_PLAYLIST_CLOCK / source->frame_rate : 0;
}

/* Whether a source with `bytes` bytes can be copied, as far as its header says; otherwise `reason`
 * is written. */
static bool suits(const struct cv_media_info *source, const AVCodecParameters *codec, int64_t bytes,
                  int max_rate, char reason[CV_LADDER_REASON_SIZE])
{
    const char *refusal = refuse_picture(source, codec);
    double rate = source->duration_us > 0
                      ? 8.0 * (double)bytes * AV_TIME_BASE / (double)source->duration_us
                      : 0;
    cv_auto(cv_h264_sets_deinit) struct cv_h264_sets sets = {0};
    if (!refusal && (source->duration_us <= 0 || rate > max_rate)) {
        refusal = "it has more bits a second than a rendition of its size may";
    }
    if (!refusal && !read_sets(&sets, codec)) {
        refusal = "its parameter sets cannot be read";
    }
    refusal = refusal ? refusal : cv_coded_refusal(&sets, codec);
    if (!refusal && reordering(source, codec) > (double)reorder_ticks_max) {
        refusal = "its pictures are decoded more than 0.2 s before they are shown";
    }
    if (refusal) {
        (void)snprintf(reason, CV_LADDER_REASON_SIZE, "%s", refusal);
    }
    return !refusal;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void copy_refuse(struct cv_copy *copy, const char *reason)
{
    if (copy->reason[0] == '\0') {
        (void)snprintf(copy->reason, sizeof(copy->reason), "%s", reason);
    }
}

const char *cv_copy_refusal(const struct cv_copy *copy)
{
    return copy->reason[0] ? copy->reason : NULL;
}

/* Opens the segments. The writer's stream has parameter sets that are written anew, and of the
 * source's header only size and colours. */
static int open_segments(struct cv_copy *copy, const struct cv_ladder *ladder,
                         const AVCodecParameters *source, struct cv_error *error)
{
    cv_auto(cv_av_codec_free) AVCodecContext *codec = avcodec_alloc_context3(NULL);
    CV_TRY_MEMORY(codec, error, "a rendition");
    codec->codec_type = AVMEDIA_TYPE_VIDEO;
    codec->codec_id = AV_CODEC_ID_H264;
    cv_av_copy_picture_form(codec, source);
    codec->sample_aspect_ratio = (AVRational){1, 1};
    codec->time_base = (AVRational){1, CV_PLAYLIST_CLOCK};
    CV_TRY(cv_h264_sets_write(&copy->sets, &codec->extradata, &codec->extradata_size, error));
    char name[CV_LADDER_NAME_SIZE];
    struct cv_segments_params segments = {
        .name = cv_ladder_names(ladder, 0, name).name,
        .format = CV_SEGMENT_MP4,
        .codec = codec,
        .files = ladder->files,
        .reorder = copy->reorder,
        .goes_on = copy->from > 0,
    };
    return cv_segments_new(&segments, &copy->segments, error);
}

static void forget_group(struct cv_copy *copy)
{
    for (size_t i = 0; i < copy->count; i++) {
        av_packet_free(&copy->group[i].packet);
    }
    copy->count = 0;
    copy->group_bytes = 0;
}

void cv_copy_free(struct cv_copy *copy)
{
    if (copy) {
        forget_group(copy);
        cv_segments_free(copy->segments);
        cv_h264_sets_deinit(&copy->sets);
        free(copy->group);
        free(copy->keys.values);
        free(copy->expected.values);
        free(copy->decoded.values);
        free(copy);
    }
}

struct cv_segments *cv_copy_segments(struct cv_copy *copy)
{
    return copy->segments;
}

int64_t cv_copy_frames(const struct cv_copy *copy)
{
    return copy->frames;
}

/* ---- times ----------------------------------------------------------------------------------- */

static bool push(struct times *times, int64_t value)
{
    if (times->first > 0 && times->first == times->count) {
        times->first = times->count = 0;
    }
    if (!CV_MAKE_ROOM(times->values, times->count)) {
        return false;
    }
    times->values[times->count++] = value;
    return true;
}

static bool is_empty(const struct times *times)
{
    return times->first == times->count;
}

/* Checks that coded and decoded pictures have the same times, as far as both are known. */
static void compare(struct cv_copy *copy)
{
    struct times *expected = &copy->expected, *decoded = &copy->decoded;
    while (!is_empty(expected) && !is_empty(decoded)) {
        if (expected->values[expected->first++] != decoded->values[decoded->first++]) {
            copy_refuse(copy, "its coded pictures are not those that come of decoding it");
        }
    }
}

/* Adds the next decoded picture in presentation order, shown from `ticks` on. */
static enum copy_place copy_frame(struct cv_copy *copy, int64_t ticks)
{
    if (!copy->has_begun || ticks < copy->begin) {
        return CV_COPY_BEFORE;
    }
    if (copy->is_full && ticks >= copy->until) {
        return CV_COPY_BEHIND;
    }
    struct times *keys = &copy->keys;
    bool is_key = !is_empty(keys) && keys->values[keys->first] == ticks;
    keys->first += is_key;
    if (!push(&copy->decoded, ticks)) {
        copy_refuse(copy, "there is no memory to compare its pictures");
    }
    compare(copy);
    return is_key ? CV_COPY_KEY : CV_COPY_PICTURE;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int ascending(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* Whether a complete segment exceeds the highest bit rate. */
static bool is_too_dense(const struct cv_copy *copy)
{
    const struct cv_segment_list *list = cv_segments_list(copy->segments);
    const struct cv_segment *last = list->count > 0 ? &list->segments[list->count - 1] : NULL;
    return last && last->duration >= CV_PLAYLIST_CLOCK &&
           8.0 * (double)last->bytes * CV_PLAYLIST_CLOCK / (double)last->duration >
               (double)copy->max_rate * PEAK_TO_MEAN;
}

/* Sets the decoding times of the group's pictures: those at which they would be shown if they were
 * in display order. So decoding times grow by the pictures' durations, and a group's decoding begins
 * where the group is shown, once the edit list has taken the distance out that reordering needs. */
static void set_decoding_times(struct cv_copy *copy, const int64_t *sorted)
{
    for (size_t i = 0; i < copy->count; i++) {
        copy->group[i].packet->dts = sorted[i];
        if (sorted[i] - copy->group[i].ticks > copy->reorder) {
            copy_refuse(copy, "its pictures are reordered more than its header says");
        }
    }
}

/* Writes the group; the next group (or the end of the presentation) is at `end`. */
static int write_group(struct cv_copy *copy, struct cv_error *error)
{
    for (size_t i = 0; i < copy->count; i++) {
        AVPacket *packet = copy->group[i].packet;
        packet->pts = copy->group[i].ticks;
        packet->duration = 0;
        packet->flags = i == 0 ? AV_PKT_FLAG_KEY : 0;
        av_packet_free_side_data(packet);
        copy->frames++;
        CV_TRY(cv_h264_repack(&copy->sets, packet, error));
        CV_TRY(cv_segments_write(copy->segments, packet, error));
    }
    return 0;
}

static int end_group(struct cv_copy *copy, int64_t end, struct cv_error *error)
{
    if (copy->count == 0) {
        return 0;
    }
    cv_auto_free int64_t *sorted = calloc(copy->count, sizeof(*sorted));
    bool good = sorted != NULL;
    for (size_t i = 0; sorted && i < copy->count; i++) {
        sorted[i] = copy->group[i].ticks;
    }
    if (sorted) {
        qsort(sorted, copy->count, sizeof(*sorted), ascending);
    }
    for (size_t i = 0; good && i < copy->count; i++) {
        good = push(&copy->expected, sorted[i]);
    }
    CV_TRY_MEMORY(good, error, "coded pictures");
    for (size_t i = 1; i < copy->count; i++) {
        if (sorted[i] == sorted[i - 1]) {
            copy_refuse(copy, "two of its pictures have one time");
        }
    }
    if (sorted[0] != copy->group[0].ticks || sorted[0] < copy->end) {
        copy_refuse(copy, "its groups of pictures are not closed");
    }
    if (end - sorted[0] > group_ticks_max) {
        copy_refuse(copy, "its key pictures are more than 10 seconds apart");
    }
    copy->end = sorted[copy->count - 1] + 1;
    compare(copy);
    set_decoding_times(copy, sorted);
    int result = copy->reason[0] ? 0 : write_group(copy, error);
    if (result == 0 && is_too_dense(copy)) {
        copy_refuse(copy, "it has more bits a second than a rendition of its size may");
    }
    forget_group(copy);
    return result;
}

static const char *refuse_packet(struct cv_copy *copy, const AVPacket *packet,
                                 enum cv_h264_picture kind, int64_t pts_us)
{
    if (kind == CV_H264_PICTURE_BROKEN || (packet->flags & AV_PKT_FLAG_CORRUPT)) {
        return "it is damaged";
    }
    if (kind == CV_H264_PICTURE_CHANGED) {
        return "its parameter sets change";
    }
    if (packet->flags & AV_PKT_FLAG_DISCARD) {
        return "an edit list leaves pictures out";
    }
    if (pts_us == AV_NOPTS_VALUE || pts_us < 0) {
        return "its time stamps are not whole";
    }
    if (!copy->has_begun && kind != CV_H264_PICTURE_IDR) {
        return "it does not begin with a key picture";
    }
    bool is_long = copy->group_bytes + packet->size > GROUP_BYTES_MAX;
    return is_long && kind != CV_H264_PICTURE_IDR ? "its groups of pictures are too large" : NULL;
}

/* Ends this part at `ticks`, where a key picture begins the next one. */
static int end_stretch(struct cv_copy *copy, int64_t ticks, struct cv_error *error)
{
    int result = end_group(copy, ticks, error);
    copy->is_full = true;
    copy->until = ticks;
    if (copy->end > ticks) {
        copy_refuse(copy, "its groups of pictures are not closed");
    }
    return result;
}

static int add_packet(struct cv_copy *copy, const AVPacket *packet, bool is_key, int64_t ticks,
                      struct cv_error *error)
{
    CV_TRY(is_key ? end_group(copy, ticks, error) : 0);
    CV_TRY_MEMORY(CV_MAKE_ROOM(copy->group, copy->count), error, "coded pictures");
    AVPacket *own = av_packet_clone(packet);
    if (!own || (is_key && !push(&copy->keys, ticks))) {
        av_packet_free(&own);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for coded pictures");
    }
    copy->group[copy->count++] = (struct picture){own, ticks};
    copy->group_bytes += packet->size;
    copy->begin = copy->has_begun ? copy->begin : ticks;
    copy->has_begun = true;
    return 0;
}

/* Adds the next coded picture in decoding order, and its presentation time (AV_NOPTS_VALUE if
 * unknown). */
static int copy_packet(struct cv_copy *copy, const AVPacket *packet, int64_t pts_us,
                       struct cv_error *error)
{
    if (copy->reason[0] || copy->is_full) {
        return 0;
    }
    enum cv_h264_picture kind = cv_h264_look(&copy->sets, packet);
    bool is_key = kind == CV_H264_PICTURE_IDR, is_timed = pts_us != AV_NOPTS_VALUE;
    int64_t ticks = is_timed ? av_rescale(pts_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE) : 0;
    if (!copy->has_begun && copy->from > 0 && !(is_key && is_timed && ticks >= copy->from)) {
        return 0; /* belongs to the part before, which checks it */
    }
    const char *refusal = refuse_packet(copy, packet, kind, pts_us);
    if (refusal) {
        copy_refuse(copy, refusal);
        return 0;
    }
    if (is_key && ticks >= copy->until) {
        return end_stretch(copy, ticks, error);
    }
    /* The first picture is shown from the beginning. */
    return add_packet(copy, packet, is_key, copy->has_begun || copy->from > 0 ? ticks : 0, error);
}

/* Checks that the presentation, which ends at `end` ticks, has enough pictures at its end. */
static void check_last_group(struct cv_copy *copy, int64_t end)
{
    int64_t begin = copy->count > 0 ? copy->group[0].ticks : end;
    int64_t pause = av_rescale(CV_LADDER_PAUSE_US, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    bool stands = begin == 0 || end - begin > pause;
    if (copy->has_sound && stands && copy->count < CV_LADDER_LAST_PICTURES) {
        copy_refuse(copy, "too few pictures follow its last key picture");
    }
}

/* Ends the copy: the presentation, or the part, ends at `end` ticks. */
static int copy_finish(struct cv_copy *copy, int64_t end, struct cv_error *error)
{
    if (!copy->is_full) {
        check_last_group(copy, end);
    }
    int result = end_group(copy, end, error);
    if (!copy->has_begun || (copy->is_full && end != copy->until)) {
        copy_refuse(copy, "there is no key picture in one of its pieces");
    }
    if (!is_empty(&copy->expected) || !is_empty(&copy->decoded) || !is_empty(&copy->keys)) {
        copy_refuse(copy, "not all of its coded pictures can be decoded");
    }
    if (result != 0 || copy->reason[0]) {
        return result;
    }
    return cv_segments_finish(copy->segments, end, error);
}

/* ---- a ladder of copies ---------------------------------------------------------------------- */

/* The functions of a ladder that copies the source's pictures as its largest rendition. */

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

bool cv_ladder_suits(const struct cv_ladder_params *params, const AVCodecParameters *codec,
                     char reason[CV_LADDER_REASON_SIZE])
{
    struct cv_rendition_size sizes[CV_LADDER_RENDITIONS_MAX];
    size_t count = cv_ladder_sizes(params, true, sizes);
    bool has_size = count > 0;
    const char *refusal = params->format != CV_SEGMENT_MP4 ? "segments of MPEG-TS are asked for"
                          : !has_size                      ? "no rendition of its size is asked for"
                                                           : NULL;
    if (codec->codec_id != AV_CODEC_ID_H264) { /* not all browsers play others */
        (void)snprintf(reason, CV_LADDER_REASON_SIZE, "it is not H.264");
        return false;
    }
    int max_rate = has_size ? sizes[0].max_rate : INT_MAX;
    if (!suits(params->source, codec, params->source_bytes, max_rate, reason)) {
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
    const struct cv_ladder_chunk *chunk = &ladder->chunk;
    cv_auto(cv_copy_free) struct cv_copy *copy = calloc(1, sizeof(*copy));
    CV_TRY_MEMORY(copy && read_sets(&copy->sets, codec), error, "a rendition");
    copy->max_rate = ladder->sizes[0].max_rate;
    copy->reorder =
        (int64_t)fmin(reorder_slack * reordering(ladder->source, codec), reorder_ticks_max);
    copy->has_sound = ladder->source->track_count > 0;
    copy->from = av_rescale(chunk->from_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    copy->until = chunk->until_us == INT64_MAX
                      ? INT64_MAX
                      : av_rescale(chunk->until_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    copy->end = INT64_MIN;
    CV_TRY(open_segments(copy, ladder, codec, error));
    ladder->copy = cv_take(copy);
    return 0;
}

int cv_ladder_packet(void *opaque, const AVPacket *packet, int64_t pts_us, struct cv_error *error)
{
    struct cv_ladder *ladder = opaque;
    return ladder->copy ? copy_packet(ladder->copy, packet, pts_us, error) : 0;
}

const char *cv_ladder_refusal(const struct cv_ladder *ladder)
{
    const char *reason = ladder->copy ? cv_copy_refusal(ladder->copy) : NULL;
    return reason ? reason : "";
}

void cv_ladder_refuse(struct cv_ladder *ladder, const char *reason)
{
    if (ladder->copy) {
        copy_refuse(ladder->copy, reason);
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
    enum copy_place place = copy_frame(ladder->copy, ticks);
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
    CV_TRY(copy_finish(ladder->copy, end, error));
    int64_t end_us = av_rescale(end, AV_TIME_BASE, CV_PLAYLIST_CLOCK);
    return cv_copy_refusal(ladder->copy) ? CV_LADDER_UNSUITABLE
                                         : cv_sprites_finish(ladder->sprites, end_us, error);
}
