#include "workers/clip_generate/cut/cut_internal.h"

#include <math.h>
#include <string.h>

enum {
    GRID = 4,         /* every fourth pixel of every fourth row is compared */
    DIFFERENCE = 8,   /* mean difference, of 256 levels; encoding at the ends stays below 3 */
    OFFSET_US = 1000, /* allowed between the ends of sound and pictures */
    EDGE = 3600,      /* pictures decoded at either end: a minute at 60 per second */
};

/* ---- pictures -------------------------------------------------------------------------------- */

struct view {
    const struct cv_cut_check *check;
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
    const AVStream *stream = view->input->video;
    const AVCodec *codec = avcodec_find_decoder(stream->codecpar->codec_id);
    view->decoder = avcodec_alloc_context3(codec);
    view->packet = av_packet_alloc();
    view->frame = av_frame_alloc();
    CV_TRY_MEMORY(view->decoder && view->packet && view->frame &&
                      avcodec_parameters_to_context(view->decoder, stream->codecpar) >= 0,
                  error, "a clip's check");
    view->decoder->pkt_timebase = stream->time_base;
    view->decoder->thread_count = view->check->threads;
    int result = avcodec_open2(view->decoder, codec, NULL);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_DECODE, "cannot open the decoder") : 0;
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

static int look_at_frame(struct view *view, struct cv_error *error)
{
    const struct cv_cut_check *check = view->check;
    const AVFrame *frame = view->frame;
    (void)error;
    size_t number = view->frames++;
    if ((frame->flags & AV_FRAME_FLAG_CORRUPT) || frame->decode_error_flags) {
        return cv_cut_refuse(check->reason, "picture %zu of the cut is damaged", number);
    }
    if (number >= check->count ||
        av_rescale_q(frame->pts, view->input->video->time_base, check->clock) !=
            check->times[number] - check->times[0]) {
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
            result = look_at_frame(view, error);
            if (result != 0) {
                return result;
            }
        }
    }
    return cv_cut_refuse(view->check->reason, "the cut does not decode");
}

/* Decides whether to decode: decoding stops at a key frame after the first pictures, and continues
 * at one before the last. */
static int choose(struct view *view, struct cv_error *error)
{
    const struct cv_cut_check *check = view->check;
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

static int look_at_packet(struct view *view, struct cv_error *error)
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

static int look_at_pictures(struct view *view, struct cv_error *error)
{
    int result;
    while ((result = cv_input_read(view->input, view->packet, error)) == CV_INPUT_PACKET) {
        if (view->packet->stream_index == view->input->video->index) {
            result = look_at_packet(view, error);
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

static int look_at_lengths(const struct view *view)
{
    const struct cv_cut_check *check = view->check;
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

int cv_cut_check(const struct cv_cut_check *check, struct cv_error *error)
{
    cv_auto_fd int file = -1;
    struct cv_byte_source source;
    CV_TRY(cv_file_source_open(check->path, &file, &source, error));
    cv_auto(view_deinit) struct view view = {.check = check};
    CV_TRY(open_view(&view, &source, error));
    CV_TRY(look_at_lengths(&view));
    return look_at_pictures(&view, error);
}
