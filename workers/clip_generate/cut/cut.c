#include "workers/clip_generate/cut/cut_internal.h"

#include <math.h>
#include <string.h>

/* ---- checking the result --------------------------------------------------------------------- */

enum {
    GRID = 4,         /* every fourth pixel of every fourth row is compared */
    DIFFERENCE = 8,   /* mean difference, of 256 levels; encoding at the ends stays below 3 */
    OFFSET_US = 1000, /* allowed between the ends of sound and pictures */
    EDGE = 3600,      /* pictures decoded at either end: a minute at 60 per second */
};

/* ---- pictures -------------------------------------------------------------------------------- */

struct check {
    const char *path;
    const int64_t *times; /* times of all pictures in ticks, increasing */
    size_t count;
    size_t tail; /* index of the picture from which on all are decoded */
    AVRational clock;
    int64_t end;                 /* ticks */
    const AVFrame *first, *last; /* expected content of both ends; NULL: copies */
    bool sound;
    int threads;
    struct cv_cancel *cancel;
    char *reason; /* CV_CUT_REASON_SIZE */
};

struct view {
    const struct check *check;
    struct cv_input *input;
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *frame;
    int64_t last_dts;
    size_t packets, frames;
    bool passes; /* now in the middle, which is not decoded */
};

static void view_deinit(struct view *view)
{
    avcodec_free_context(&view->decoder);
    av_packet_free(&view->packet);
    av_frame_free(&view->frame);
    cv_input_close(view->input);
}
CV_DEFINE_CLEANUP_ADDRESS(struct view, view_deinit)

static int open_view(struct view *view, const struct cv_byte_source *source, struct cv_error *error)
{
    CV_TRY(cv_input_open(source, view->check->cancel, &view->input, error));
    view->packet = av_packet_alloc();
    view->frame = av_frame_alloc();
    CV_TRY_MEMORY(view->packet && view->frame, error, "a clip's check");
    return cv_codec_open(view->input->video, view->check->threads, &view->decoder, error);
}

/* The mean difference of two pictures' brightness; huge if size or format differ. */
static double difference(const AVFrame *one, const AVFrame *other)
{
    if (one->width != other->width || one->height != other->height ||
        one->format != other->format) {
        return INFINITY;
    }
    int64_t sum = 0, count = 0;
    for (int y = 0; y < one->height; y += GRID) {
        const uint8_t *a = one->data[0] + (ptrdiff_t)y * one->linesize[0];
        const uint8_t *b = other->data[0] + (ptrdiff_t)y * other->linesize[0];
        for (int x = 0; x < one->width; x += GRID, count++) {
            sum += abs(a[x] - b[x]);
        }
    }
    return count > 0 ? (double)sum / (double)count : INFINITY;
}

static int check_frame(struct view *view, struct cv_error *error)
{
    const struct check *check = view->check;
    const AVFrame *frame = view->frame;
    (void)error;
    size_t number = view->frames++;
    if ((frame->flags & AV_FRAME_FLAG_CORRUPT) || frame->decode_error_flags) {
        return cv_cut_refuse(check->reason, "picture %zu of the cut is damaged", number);
    }
    if (number >= check->count || av_rescale_q(frame->pts, view->input->video->time_base,
                                               check->clock) != check->times[number]) {
        return cv_cut_refuse(check->reason, "picture %zu of the cut is not at its time", number);
    }
    const AVFrame *wanted = number == 0 ? check->first : NULL;
    wanted = number == check->count - 1 && check->last ? check->last : wanted;
    if (wanted && difference(frame, wanted) > DIFFERENCE) {
        return cv_cut_refuse(check->reason, "picture %zu of the cut shows something else", number);
    }
    return 0;
}

/* Decodes a packet; NULL: the end. */
static int decode(struct view *view, const AVPacket *packet, struct cv_error *error)
{
    int result = avcodec_send_packet(view->decoder, packet);
    while (result >= 0) {
        av_frame_unref(view->frame);
        result = avcodec_receive_frame(view->decoder, view->frame);
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
            return 0;
        }
        if (result >= 0) {
            CV_TRY(check_frame(view, error));
        }
    }
    return cv_cut_refuse(view->check->reason, "the cut does not decode");
}

/* Decides whether to decode: decoding stops at a key frame after the first pictures, and continues
 * at one before the last. */
static int choose(struct view *view, struct cv_error *error)
{
    const struct check *check = view->check;
    size_t last = check->count > EDGE ? check->count - EDGE : 0;
    last = last < check->tail ? last : check->tail;
    if ((view->packet->flags & AV_PKT_FLAG_KEY) == 0 || view->packets < EDGE) {
        return 0;
    }
    if (view->packets >= last) {
        view->frames = view->passes ? view->packets : view->frames;
        view->passes = false;
        return 0;
    }
    if (view->passes) {
        return 0;
    }
    CV_TRY(decode(view, NULL, error));
    avcodec_flush_buffers(view->decoder);
    view->passes = true;
    if (view->frames != view->packets) {
        return cv_cut_refuse(check->reason, "the cut shows %zu pictures of %zu", view->frames,
                             view->packets);
    }
    return 0;
}

static int check_packet(struct view *view, struct cv_error *error)
{
    int64_t dts = view->packet->dts;
    if (view->packets > 0 && dts <= view->last_dts) {
        return cv_cut_refuse(view->check->reason, "decoding times of the cut do not grow");
    }
    CV_TRY(choose(view, error));
    view->last_dts = dts;
    view->packets++;
    return view->passes ? 0 : decode(view, view->packet, error);
}

static int check_pictures(struct view *view, struct cv_error *error)
{
    int result;
    while ((result = cv_input_read(view->input, view->packet, error)) == CV_INPUT_PACKET) {
        if (view->packet->stream_index == view->input->video->index) {
            result = check_packet(view, error);
        }
        if (result != 0) {
            return result;
        }
    }
    result = result < 0 ? result : decode(view, NULL, error);
    if (result == 0 && (view->frames != view->check->count || view->packets != view->frames)) {
        return cv_cut_refuse(view->check->reason, "the cut has %zu pictures in place of %zu",
                             view->frames, view->check->count);
    }
    return result;
}

/* ---- lengths --------------------------------------------------------------------------------- */

static int64_t end_of(const AVStream *stream)
{
    int64_t start = stream->start_time == AV_NOPTS_VALUE ? 0 : stream->start_time;
    return av_rescale_q(start + stream->duration, stream->time_base, AV_TIME_BASE_Q);
}

static int check_lengths(const struct view *view)
{
    const struct check *check = view->check;
    int64_t wanted = av_rescale_q(check->end, check->clock, AV_TIME_BASE_Q);
    if (llabs(end_of(view->input->video) - wanted) > OFFSET_US) {
        return cv_cut_refuse(check->reason, "the cut is %lld µs long in place of %lld",
                             (long long)end_of(view->input->video), (long long)wanted);
    }
    if (check->sound != (view->input->audio != NULL)) {
        return cv_cut_refuse(check->reason, "the cut has lost its sound");
    }
    if (check->sound && llabs(end_of(view->input->audio) - wanted) > OFFSET_US) {
        return cv_cut_refuse(check->reason, "the sound of the cut is %lld µs long in place of %lld",
                             (long long)end_of(view->input->audio), (long long)wanted);
    }
    return 0;
}

/* Reads a clip and decodes it. It must have as many pictures as planned, at their times, none
 * damaged, the first and the last with the expected content, increasing decoding times, and sound
 * as long as the pictures. The middle of a long clip is read but not decoded: it is a copy of the
 * source between two key frames. */
static int check_file(const struct check *check, struct cv_error *error)
{
    cv_auto_fd int file = -1;
    struct cv_byte_source source;
    CV_TRY(cv_file_source_open(check->path, &file, &source, error));
    cv_auto(view_deinit) struct view view = {.check = check};
    CV_TRY(open_view(&view, &source, error));
    CV_TRY(check_lengths(&view));
    return check_pictures(&view, error);
}

/* ---- whether the source can be cut ----------------------------------------------------------- */

enum {
    PROFILE_BASELINE = 66,
    PROFILE_MAIN = 77,
    PROFILE_HIGH = 100,
};

static int check_stream(struct cv_cut_state *cut)
{
    const struct cv_media_info *info = &cut->input->info;
    const AVCodecParameters *codec = cut->input->video->codecpar;
    int side = info->width > info->height ? info->width : info->height;
    if (codec->codec_id != AV_CODEC_ID_H264) {
        return cv_cut_refuse(cut->reason, "the video is %s, not H.264", info->video_codec);
    }
    if (codec->format != AV_PIX_FMT_YUV420P && codec->format != AV_PIX_FMT_YUVJ420P) {
        return cv_cut_refuse(cut->reason, "pictures are %s, not 4:2:0 of 8 bits",
                             info->pixel_format);
    }
    if (info->interlaced || info->high_dynamic_range || info->mirrored) {
        return cv_cut_refuse(cut->reason, "pictures are %s",
                             info->interlaced ? "interlaced"
                             : info->mirrored ? "mirrored"
                                              : "of high dynamic range");
    }
    bool too_long = cut->params->max_side > 0 && side > cut->params->max_side;
    bool too_high = cut->params->max_height > 0 && info->height > cut->params->max_height;
    if (too_long || too_high) {
        return cv_cut_refuse(cut->reason, "pictures of %d×%d are to be smaller", info->width,
                             info->height);
    }
    return 0;
}

static int check_sets(struct cv_cut_state *cut)
{
    const AVCodecParameters *codec = cut->input->video->codecpar;
    if (!cv_h264_sets_read(&cut->sets, codec->extradata, (size_t)codec->extradata_size)) {
        return cv_cut_refuse(cut->reason, "the stream's parameter sets cannot be read");
    }
    for (size_t i = 0; i < cut->sets.count; i++) {
        struct cv_h264_sps sps;
        if (cut->sets.sets[i].type != CV_H264_SPS) {
            continue;
        }
        if (!cv_h264_sps_read(&cut->sets.sets[i], &sps) || sps.chroma_format != 1 ||
            sps.bit_depth != 8) {
            return cv_cut_refuse(cut->reason, "the stream's parameter sets cannot be read");
        }
        if (sps.profile != PROFILE_BASELINE && sps.profile != PROFILE_MAIN &&
            sps.profile != PROFILE_HIGH) {
            return cv_cut_refuse(cut->reason, "H.264 profile %d", sps.profile);
        }
        if (!sps.frames_only) {
            return cv_cut_refuse(cut->reason, "the stream may have interlaced pictures");
        }
        if (cut->encoding.profile != 0 && cut->encoding.profile != sps.profile) {
            return cv_cut_refuse(cut->reason, "the stream changes its profile");
        }
        cut->encoding.profile = sps.profile;
    }
    return 0;
}

/* Adds the encoder's parameter sets to the source's under free identifiers, so that one sample
 * description ("avc1") serves copied and encoded pictures. */
static int join_sets(struct cv_cut_state *cut, struct cv_error *error)
{
    cut->encoding.set_id = cv_h264_sets_free_id(&cut->sets);
    if (cut->encoding.set_id < 0) {
        return cv_cut_refuse(cut->reason, "the stream uses every parameter set");
    }
    cv_auto(cv_av_codec_free) AVCodecContext *encoder = NULL;
    CV_TRY(cv_cut_encoder_open(&cut->encoding, &encoder, error));
    cv_auto(cv_h264_sets_deinit) struct cv_h264_sets made = {0};
    struct cv_h264_sps sps = {0};
    if (!cv_h264_sets_read(&made, encoder->extradata, (size_t)encoder->extradata_size) ||
        !cv_h264_sets_join(&cut->all, &cut->sets) || !cv_h264_sets_join(&cut->all, &made)) {
        return cv_cut_refuse(cut->reason, "the encoder's parameter sets do not fit");
    }
    for (size_t i = 0; i < made.count; i++) {
        if (made.sets[i].type == CV_H264_SPS &&
            (!cv_h264_sps_read(&made.sets[i], &sps) || sps.profile != cut->encoding.profile)) {
            return cv_cut_refuse(cut->reason, "the encoder makes another profile");
        }
    }
    return 0;
}

/* Examines the stream and chooses the parameters of the encoded pictures. */
static int prepare(struct cv_cut_state *cut, struct cv_error *error)
{
    cut->encoding = (struct cv_cut_encoding){
        .input = cut->input,
        .clock = cv_mp4_clock(cut->input->video->time_base),
        .threads = cut->params->threads,
        .reason = cut->reason,
    };
    cut->encoding.origin = av_rescale_q(cut->params->start_us + cut->input->zero_us, AV_TIME_BASE_Q,
                                        cut->encoding.clock);
    cut->packet = av_packet_alloc();
    CV_TRY_MEMORY(cut->packet, error, "a cut");
    CV_TRY(check_stream(cut));
    CV_TRY(check_sets(cut));
    return join_sets(cut, error);
}

/* ---- the cut --------------------------------------------------------------------------------- */

enum {
    REORDER_MAX = 16,               /* H.264's limit of reordered pictures */
    PREROLL_US = 500 * 1000,        /* sound decoders need the packet before */
    STEP_US = 4 * 1000 * 1000,      /* first step back if the index points too late */
    STEP_MAX_US = 64 * 1000 * 1000, /* if key frames are further apart, copying gains nothing */
    SOUND_LEAD_US = 1000 * 1000,    /* sound that is decoded before the range */
    GROUP_PICTURES = 36000,         /* ten minutes at 60 pictures per second */
    SHORTEST_CLAIM_US = 2 * 1000,   /* a shorter last duration is a container's tick */
};

#define GROUP_BYTES (INT64_C(256) << 20) /* a minute at the highest rates of phones */

/* Outcomes besides CV_CUT_DONE and CV_CUT_REFUSED. */
enum { LANDED_LATE = CV_CUT_TOO_DEEP + 1 };

int cv_cut_refuse(char reason[CV_CUT_REASON_SIZE], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reason, CV_CUT_REASON_SIZE, format, arguments);
    va_end(arguments);
    return CV_CUT_REFUSED;
}

static void cut_deinit(struct cv_cut_state *cut)
{
    cv_cut_file_close(cut->file);
    cv_cut_sound_free(cut->sound);
    cv_cut_group_deinit(&cut->group);
    cv_h264_sets_deinit(&cut->sets);
    cv_h264_sets_deinit(&cut->all);
    av_packet_free(&cut->packet);
    av_frame_free(&cut->first);
    av_frame_free(&cut->last);
}
CV_DEFINE_CLEANUP_ADDRESS(struct cv_cut_state, cut_deinit)

/* ---- reading --------------------------------------------------------------------------------- */

static int pictures_end(struct cv_cut_state *cut, struct cv_error *error)
{
    cut->pictures_done = true;
    cut->input->video->discard = AVDISCARD_ALL; /* pictures are not even read */
    return cv_cut_add_group(cut, INT64_MAX, error);
}

static int start_group(struct cv_cut_state *cut, int64_t time_us, struct cv_error *error)
{
    bool first = cut->group_end_us == INT64_MIN && cut->group.count == 0;
    if (first && time_us > cut->params->start_us && (cut->target_us > 0 || cut->skipped)) {
        return LANDED_LATE;
    }
    CV_TRY(cv_cut_add_group(cut, time_us, error));
    if (time_us >= cut->params->end_us) {
        cut->source_goes_on = true;
        return pictures_end(cut, error);
    }
    if (cut->params->progress) {
        double whole = (double)(cut->params->end_us - cut->params->start_us);
        double done = (double)(time_us - cut->params->start_us) / whole;
        cut->params->progress(cut->params->opaque, done > 0 ? done : 0);
    }
    return 0;
}

static int add_picture(struct cv_cut_state *cut, struct cv_error *error)
{
    AVPacket *packet = cut->packet;
    int64_t time_us = cv_input_time_us(cut->input, cut->input->video, packet->pts);
    if (packet->pts == AV_NOPTS_VALUE) {
        return cv_cut_refuse(cut->reason, "pictures have no times");
    }
    if (packet->flags & AV_PKT_FLAG_CORRUPT) {
        return cv_cut_refuse(cut->reason, "the video is damaged there");
    }
    if (av_packet_get_side_data(packet, AV_PKT_DATA_NEW_EXTRADATA, NULL)) {
        return cv_cut_refuse(cut->reason, "parameter sets change");
    }
    enum cv_h264_picture kind = cv_h264_look(&cut->sets, packet);
    if (cut->group.count == 0 && kind != CV_H264_PICTURE_IDR) {
        bool passed = time_us >= cut->params->start_us;
        cut->skipped = true;
        return passed ? LANDED_LATE : 0; /* after a seek: not needed by the next key frame */
    }
    if (kind == CV_H264_PICTURE_BROKEN || kind == CV_H264_PICTURE_CHANGED) {
        return cv_cut_refuse(cut->reason, kind == CV_H264_PICTURE_BROKEN
                                              ? "the video is damaged there"
                                              : "parameter sets change");
    }
    CV_TRY(kind == CV_H264_PICTURE_IDR ? start_group(cut, time_us, error) : 0);
    if (cut->pictures_done) {
        return 0;
    }
    if (cut->group.count == GROUP_PICTURES || cut->group.bytes > GROUP_BYTES) {
        return cv_cut_refuse(cut->reason, "key frames are too far apart");
    }
    int result = cv_cut_group_push(&cut->group, packet, time_us, error);
    cut->beyond += time_us >= cut->params->end_us;
    cut->source_goes_on = cut->source_goes_on || cut->beyond > 0;
    bool all_seen = cut->beyond > REORDER_MAX;
    return result == 0 && all_seen ? pictures_end(cut, error) : result;
}

static int add_sound(struct cv_cut_state *cut, struct cv_error *error)
{
    const AVStream *stream = cut->input->audio;
    int64_t time_us = cv_input_time_us(cut->input, stream, cut->packet->pts);
    if (time_us != AV_NOPTS_VALUE && time_us >= cut->params->end_us) {
        cut->sound_done = cut->source_goes_on = true;
        cut->input->audio->discard = AVDISCARD_ALL;
        return 0;
    }
    bool early = time_us != AV_NOPTS_VALUE && time_us < cut->params->start_us - SOUND_LEAD_US;
    return early || !cut->sound ? 0 : cv_cut_sound_packet(cut->sound, cut->packet, error);
}

static int read_range(struct cv_cut_state *cut, struct cv_error *error)
{
    while (!cut->pictures_done || !cut->sound_done) {
        int result = cv_input_read(cut->input, cut->packet, error);
        if (result == CV_INPUT_END) {
            return cut->pictures_done ? 0 : pictures_end(cut, error);
        }
        bool is_picture = cut->packet->stream_index == cut->input->video->index;
        if (result == 0 && !(is_picture ? cut->pictures_done : cut->sound_done)) {
            result = is_picture ? add_picture(cut, error) : add_sound(cut, error);
        }
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* Discards what was read of the input, and starts at a key frame before `target_us`. */
static int start_reading(struct cv_cut_state *cut, int64_t target_us, struct cv_error *error)
{
    cut->input->video->discard = AVDISCARD_DEFAULT;
    cut->group_end_us = cut->last_us = INT64_MIN;
    cut->target_us = target_us;
    cut->sound_done = true;
    cut->skipped = cut->source_goes_on = false;
    cv_cut_sound_free(cut->sound);
    cut->sound = NULL;
    if (cut->input->audio) {
        struct cv_error ignored; /* sound that cannot be decoded is dropped */
        if (cv_cut_sound_new(cut->input, cut->params->start_us, !cut->params->sound, &cut->sound,
                             &ignored) == 0) {
            cut->input->audio->discard = AVDISCARD_DEFAULT;
            cut->sound_done = false;
        }
    }
    return cv_input_seek(cut->input, target_us, error);
}

static int read_pictures(struct cv_cut_state *cut, struct cv_error *error)
{
    int64_t start_us = cut->params->start_us, back_us = PREROLL_US;
    for (;; back_us = back_us < STEP_US ? STEP_US : 4 * back_us) {
        int64_t target_us = start_us > back_us ? start_us - back_us : 0;
        int result = start_reading(cut, target_us, error);
        result = result ? result : read_range(cut, error);
        if (result != LANDED_LATE) {
            return result;
        }
        if (target_us == 0 || back_us >= STEP_MAX_US) {
            return cv_cut_refuse(cut->reason, "no key frame (IDR) is near the start");
        }
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The end of the source, if it ends within the range. */
static int64_t source_end_us(const struct cv_cut_state *cut)
{
    bool claims = cut->last_duration_us >= SHORTEST_CLAIM_US;
    int64_t end_us = cut->last_us + (claims ? cut->last_duration_us : cv_cut_step_us(cut));
    int64_t sound_us = cut->sound ? cv_cut_sound_end_us(cut->sound) : 0;
    return sound_us > end_us ? sound_us : end_us;
}

static int64_t length_in_ticks(const struct cv_cut_state *cut)
{
    return av_rescale_q(cut->end_us - cut->params->start_us, AV_TIME_BASE_Q, cut->encoding.clock);
}

static int finish_clip(struct cv_cut_state *cut, struct cv_error *error)
{
    CV_TRY(cut->sound ? cv_cut_sound_drain(cut->sound, error) : 0);
    cut->end_us = cut->source_goes_on ? INT64_MAX : source_end_us(cut);
    if (cut->end_us <= cut->params->start_us) {
        return cv_cut_refuse(cut->reason, "the source ends before the range");
    }
    if (cut->end_us > cut->params->end_us) {
        cut->end_us = cut->params->end_us;
        cut->source_goes_on = true;
    }
    CV_TRY(cut->sound ? cv_cut_sound_finish(cut->sound, cut->end_us, error) : 0);
    return cv_cut_file_finish(cut->file, length_in_ticks(cut), error);
}

static bool has_sound(const struct cv_cut_state *cut)
{
    return cut->sound && cut->params->sound;
}

static int check_clip(struct cv_cut_state *cut, struct cv_error *error)
{
    struct check check = {
        .path = cut->params->path,
        .clock = cut->encoding.clock,
        .end = length_in_ticks(cut),
        .first = cut->first,
        .last = cut->last,
        .sound = has_sound(cut),
        .threads = cut->params->threads,
        .cancel = cut->params->cancel,
        .reason = cut->reason,
    };
    check.times = cv_cut_file_times(cut->file, &check.count);
    check.tail = cv_cut_file_tail(cut->file);
    int result = check_file(&check, error);
    if (result < 0 && error->type != CV_ERROR_CANCELED && error->type != CV_ERROR_OUT_OF_MEMORY) {
        return cv_cut_refuse(cut->reason, "the cut cannot be read: %.100s", error->message);
    }
    return result;
}

static void report_on(const struct cv_cut_state *cut, struct cv_cut_report *report)
{
    const struct cv_media_info *info = &cut->input->info;
    *report = (struct cv_cut_report){
        .first_us = cut->first_us,
        .last_us = cut->last_us,
        .source_end_us = cut->source_goes_on ? INT64_MAX : cut->end_us,
        .copied = cut->copied,
        .encoded = cut->encoded,
        .summary = {.width = info->width,
                    .height = info->height,
                    .frames = cut->copied + cut->encoded,
                    .duration_us = cut->end_us - cut->params->start_us,
                    .sound = has_sound(cut)},
    };
}

/* Makes one attempt, with room for `depth` reordered pictures. */
static int attempt(struct cv_input *input, const struct cv_cut_params *params, int depth,
                   struct cv_cut_report *ret_report, struct cv_error *error)
{
    cv_auto(cut_deinit) struct cv_cut_state cut = {
        .params = params, .input = input, .depth = depth};
    struct cv_cut_report report = {0};
    int result = prepare(&cut, error);
    result = result ? result : read_pictures(&cut, error);
    if (result == 0 && cut.copied == 0) {
        result = cv_cut_refuse(cut.reason, "nothing of the range could be copied");
    }
    result = result ? result : finish_clip(&cut, error);
    result = result ? result : check_clip(&cut, error);
    if (result == 0) {
        report_on(&cut, &report);
    }
    (void)memcpy(report.reason, cut.reason, sizeof(report.reason));
    *ret_report = report;
    return result;
}

int cv_cut(const struct cv_byte_source *source, const struct cv_cut_params *params,
           struct cv_cut_report *ret_report, struct cv_error *error)
{
    cv_auto(cv_input_close) struct cv_input *input = NULL;
    CV_TRY(cv_input_open(source, params->cancel, &input, error));
    int depth = input->video->codecpar->video_delay;
    depth = depth < 0 ? 0 : depth > REORDER_MAX ? REORDER_MAX : depth;
    int result = attempt(input, params, depth, ret_report, error);
    if (result == CV_CUT_TOO_DEEP) {
        result = attempt(input, params, REORDER_MAX, ret_report, error);
        result = result == CV_CUT_TOO_DEEP ? CV_CUT_REFUSED : result;
    }
    return result;
}
