#include "workers/clip_generate/cut/cut_internal.h"

#include <assert.h>
#include <string.h>

enum {
    KEY_DISTANCE = 120, /* pictures between key frames of a long piece */
    FRAME_RATE_UNKNOWN = 30,
    PROFILE_BASELINE = 66,
    PROFILE_MAIN = 77,
};

/* Encoded pieces are short and are seen next to original pictures, so they get more bits than a
 * whole encode and no seam is visible. */
static const char *const preset = "veryfast";
static const char *const rate_factor = "18";

void cv_cut_piece_deinit(struct cv_cut_piece *piece)
{
    cv_packet_queue_deinit(&piece->packets);
    av_frame_free(&piece->first);
    av_frame_free(&piece->last);
}

static const char *profile_name(int profile)
{
    return profile == PROFILE_BASELINE ? "baseline" : profile == PROFILE_MAIN ? "main" : "high";
}

int cv_cut_encoder_open(const struct cv_cut_encoding *encoding, AVCodecContext **ret_encoder,
                        struct cv_error *error)
{
    const AVCodec *codec = avcodec_find_encoder_by_name("libx264");
    if (!codec) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "this FFmpeg has no libx264");
    }
    char names[64];
    (void)snprintf(names, sizeof(names), "sps-id=%d:stitchable=1", encoding->set_id);
    cv_auto(cv_av_codec_free) AVCodecContext *encoder = avcodec_alloc_context3(codec);
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    CV_TRY_MEMORY(encoder && av_dict_set(&options, "preset", preset, 0) >= 0 &&
                      av_dict_set(&options, "crf", rate_factor, 0) >= 0 &&
                      av_dict_set(&options, "profile", profile_name(encoding->profile), 0) >= 0 &&
                      av_dict_set(&options, "x264-params", names, 0) >= 0,
                  error, "an encoder");
    const AVCodecParameters *source = encoding->input->video->codecpar;
    double rate = encoding->input->info.frame_rate;
    cv_av_copy_picture_form(encoder, source);
    encoder->sample_aspect_ratio = source->sample_aspect_ratio;
    encoder->chroma_sample_location = source->chroma_location;
    encoder->time_base = encoding->clock;
    encoder->framerate = av_d2q(rate > 0 ? rate : FRAME_RATE_UNKNOWN, 1001 * 240);
    encoder->thread_count = encoding->threads;
    encoder->gop_size = KEY_DISTANCE;
    encoder->max_b_frames = 0;
    encoder->flags |= AV_CODEC_FLAG_CLOSED_GOP | AV_CODEC_FLAG_GLOBAL_HEADER;
    CV_TRY_AV(avcodec_open2(encoder, codec, &options), error, CV_ERROR_ENCODE,
              "cannot encode %d×%d H.264", source->width, source->height);
    *ret_encoder = cv_take(encoder);
    return 0;
}

int64_t cv_cut_tick(const struct cv_cut_encoding *encoding, int64_t pts)
{
    AVRational time_base = encoding->input->video->time_base;
    int64_t tick = av_rescale_q(pts, time_base, encoding->clock) - encoding->origin;
    return tick > 0 ? tick : 0;
}

/* ---- a piece --------------------------------------------------------------------------------- */

struct work {
    const struct cv_cut_encoding *encoding;
    const struct cv_h264_sets *sets;
    AVCodecContext *decoder, *encoder;
    AVFrame *frame;
    AVPacket *packet;
    int64_t from_us, to_us;
    size_t frames;
    struct cv_cut_piece *piece;
};

static void work_deinit(struct work *work)
{
    avcodec_free_context(&work->decoder);
    avcodec_free_context(&work->encoder);
    av_frame_free(&work->frame);
    av_packet_free(&work->packet);
}
CV_DEFINE_CLEANUP_ADDRESS(struct work, work_deinit)

static int open_work(struct work *work, struct cv_error *error)
{
    const struct cv_cut_encoding *encoding = work->encoding;
    work->frame = av_frame_alloc();
    work->packet = av_packet_alloc();
    CV_TRY_MEMORY(work->frame && work->packet, error, "a decoder");
    CV_TRY(cv_codec_open(encoding->input->video, encoding->threads, &work->decoder, error));
    CV_TRY(cv_cut_encoder_open(encoding, &work->encoder, error));
    assert(work->encoder);
    cv_auto(cv_h264_sets_deinit) struct cv_h264_sets made = {0};
    bool same =
        cv_h264_sets_read(&made, work->encoder->extradata, (size_t)work->encoder->extradata_size);
    for (size_t i = 0; same && i < made.count; i++) {
        const struct cv_h264_set *set = &made.sets[i];
        same =
            cv_h264_sets_have(work->sets, &(struct cv_h264_nal){set->data, set->size, set->type});
    }
    return same ? 0 : cv_cut_refuse(encoding->reason, "the encoder's parameter sets change");
}

/* Takes the encoder's packets, converted to MP4's form. */
static int collect(struct work *work, struct cv_error *error)
{
    static const struct cv_h264_sets start_codes = {.length_size = 0};
    for (;;) {
        int result = avcodec_receive_packet(work->encoder, work->packet);
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
            return 0;
        }
        if (result < 0) {
            return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode a picture");
        }
        CV_TRY(cv_h264_repack(&start_codes, work->packet, error));
        CV_TRY(cv_packet_queue_push(&work->piece->packets, work->packet, error));
    }
}

static int keep(AVFrame **target, const AVFrame *frame, struct cv_error *error)
{
    av_frame_free(target);
    *target = av_frame_clone(frame);
    return *target ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
}

static int encode_frame(struct work *work, struct cv_error *error)
{
    const struct cv_cut_encoding *encoding = work->encoding;
    const AVStream *stream = encoding->input->video;
    AVFrame *frame = work->frame;
    int64_t time_us = cv_input_time_us(encoding->input, stream, frame->pts);
    if (frame->pts == AV_NOPTS_VALUE || time_us < work->from_us || time_us >= work->to_us) {
        return 0;
    }
    bool damaged = (frame->flags & AV_FRAME_FLAG_CORRUPT) || frame->decode_error_flags;
    if (damaged || cv_av_is_interlaced(frame) || frame->width != stream->codecpar->width ||
        frame->height != stream->codecpar->height || frame->format != stream->codecpar->format) {
        return cv_cut_refuse(encoding->reason, "a picture at the ends is %s",
                             damaged ? "damaged" : "of another kind");
    }
    CV_TRY(work->piece->first ? 0 : keep(&work->piece->first, frame, error));
    CV_TRY(keep(&work->piece->last, frame, error));
    work->frames++;
    frame->pts = cv_cut_tick(encoding, frame->pts);
    frame->pict_type = AV_PICTURE_TYPE_NONE;
    av_frame_remove_side_data(frame, AV_FRAME_DATA_SEI_UNREGISTERED);
    CV_TRY_AV(avcodec_send_frame(work->encoder, frame), error, CV_ERROR_ENCODE,
              "cannot encode a picture");
    return collect(work, error);
}

/* Decodes a packet; NULL: the end of the group. */
static int decode(struct work *work, const AVPacket *packet, struct cv_error *error)
{
    int result = avcodec_send_packet(work->decoder, packet);
    if (result < 0) {
        return cv_cut_refuse(work->encoding->reason, "a picture at the ends cannot be decoded");
    }
    for (;;) {
        av_frame_unref(work->frame);
        result = avcodec_receive_frame(work->decoder, work->frame);
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
            return 0;
        }
        if (result < 0) {
            return cv_cut_refuse(work->encoding->reason, "a picture at the ends cannot be decoded");
        }
        CV_TRY(encode_frame(work, error));
    }
}

static size_t frames_within(const struct cv_cut_group *group, int64_t from_us, int64_t to_us)
{
    size_t count = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct cv_cut_picture *picture = &group->pictures[i];
        count += !picture->hidden && picture->time_us >= from_us && picture->time_us < to_us;
    }
    return count;
}

int cv_cut_encode(const struct cv_cut_encoding *encoding, const struct cv_h264_sets *sets,
                  const struct cv_cut_group *group, int64_t from_us, int64_t to_us,
                  struct cv_cut_piece *piece, struct cv_error *error)
{
    cv_auto(work_deinit) struct work work = {
        .encoding = encoding,
        .sets = sets,
        .from_us = from_us,
        .to_us = to_us,
        .piece = piece,
    };
    CV_TRY(open_work(&work, error));
    for (size_t i = 0; i < group->count; i++) {
        if (cv_cancel_level(encoding->input->cancel) >= CV_CANCEL_ABORT) {
            return cv_fail(error, CV_ERROR_CANCELED, "cutting: stopped");
        }
        CV_TRY(decode(&work, group->pictures[i].packet, error));
    }
    CV_TRY(decode(&work, NULL, error));
    int flushed = avcodec_send_frame(work.encoder, NULL);
    if (flushed < 0) {
        return cv_fail_av(error, flushed, CV_ERROR_ENCODE, "cannot end the pictures");
    }
    CV_TRY(collect(&work, error));
    size_t wanted = frames_within(group, from_us, to_us);
    if (work.frames != wanted || piece->packets.count != wanted) {
        return cv_cut_refuse(encoding->reason, "%zu pictures at an end decode as %zu", wanted,
                             work.frames);
    }
    return 0;
}
