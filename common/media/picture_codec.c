#include "common/media/picture_codec.h"

#include "common/media/hardware.h"
#include "common/media/info.h"
#include "common/media/libav.h"

#include <string.h>

enum {
    THREADS_AREA_MAX = 16 << 20, /* pixels in flight: eight pictures of 1080p, two of 4K */
    KEPT_MAX = 64, /* packets; H.264 and HEVC reorder at most 16 pictures, of two fields each */
};

struct cv_picture_codec {
    const AVStream *stream; /* borrowed */
    int threads;
    AVCodecContext *context;
    struct cv_hardware *hardware; /* NULL: FFmpeg's own decoder */
    int64_t pictures;             /* from the device, since the beginning or the last flush */
    /* The packets before the device's first picture; FFmpeg's own decoder gets them again. */
    AVPacket *kept[KEPT_MAX];
    size_t kept_count, kept_sent;
    bool has_ended;
};

/* ---- opening --------------------------------------------------------------------------------- */

/* Frame threading keeps one more picture in memory for every thread. Large pictures have enough
 * slices for several threads to share one picture. */
static void share_out_threads(AVCodecContext *context, int threads)
{
    int64_t area = (int64_t)context->width * context->height;
    context->thread_count = threads;
    if (area * threads > THREADS_AREA_MAX) {
        int64_t pictures = area > 0 ? THREADS_AREA_MAX / area : 1;
        context->thread_type = pictures > 1 ? FF_THREAD_FRAME : FF_THREAD_SLICE;
        context->thread_count = pictures > 1 ? (int)pictures : threads;
    }
}

int cv_codec_open(const AVStream *stream, int threads, struct cv_hardware *hardware,
                  AVCodecContext **ret_context, struct cv_error *error)
{
    const AVCodec *codec =
        hardware ? cv_hardware_codec(hardware) : avcodec_find_decoder(stream->codecpar->codec_id);
    cv_auto(cv_av_codec_free) AVCodecContext *context = avcodec_alloc_context3(codec);
    CV_TRY_MEMORY(context && avcodec_parameters_to_context(context, stream->codecpar) >= 0, error,
                  "a decoder");
    context->pkt_timebase = stream->time_base;
    share_out_threads(context, threads);
    context->max_pixels = CV_MEDIA_AREA_MAX;
    context->flags |= AV_CODEC_FLAG_UNALIGNED; /* otherwise left edges are cropped in large steps */
    if (hardware) {
        CV_TRY(cv_hardware_attach(hardware, context, error));
    }
    int result = avcodec_open2(context, codec, NULL);
    if (result < 0) {
        enum cv_error_type type =
            result == AVERROR_INVALIDDATA ? CV_ERROR_DECODE : CV_ERROR_UNSUPPORTED_MEDIA;
        return cv_fail_av(error, result, type, "cannot open the decoder %s", codec->name);
    }
    *ret_context = cv_take(context);
    return 0;
}

static void log_refusal(const char *device, const char *reason)
{
    cv_log(CV_LOG_WARN, "the CPU decodes, not %s: %s", device, reason);
}

int cv_picture_codec_open(const AVStream *stream, int threads, const char *device,
                          struct cv_picture_codec **ret_codec, struct cv_error *error)
{
    struct cv_picture_codec *codec = calloc(1, sizeof(*codec));
    CV_TRY_MEMORY(codec, error, "a decoder");
    codec->stream = stream;
    codec->threads = threads;
    int result = -1;
    if (device) {
        struct cv_error reason;
        result = cv_hardware_new(device, stream->codecpar->codec_id, &codec->hardware, &reason);
        result =
            result ? result : cv_codec_open(stream, 1, codec->hardware, &codec->context, &reason);
        if (result != 0) {
            log_refusal(device, reason.message);
            cv_hardware_free(cv_take(codec->hardware));
        }
    }
    if (result != 0) {
        result = cv_codec_open(stream, threads, NULL, &codec->context, error);
    }
    if (result != 0) {
        cv_picture_codec_close(codec);
        return result;
    }
    *ret_codec = codec;
    return 0;
}

static void forget_kept(struct cv_picture_codec *codec)
{
    for (size_t i = 0; i < codec->kept_count; i++) {
        av_packet_free(&codec->kept[i]);
    }
    codec->kept_count = codec->kept_sent = 0;
}

void cv_picture_codec_close(struct cv_picture_codec *codec)
{
    if (codec) {
        forget_kept(codec);
        avcodec_free_context(&codec->context);
        cv_hardware_free(codec->hardware);
        free(codec);
    }
}

void cv_picture_codec_flush(struct cv_picture_codec *codec)
{
    avcodec_flush_buffers(codec->context);
    forget_kept(codec);
    codec->pictures = 0;
    codec->has_ended = false;
}

/* ---- from the device to FFmpeg's own decoder --------------------------------------------------- */

/* Continues with FFmpeg's own decoder if the device has given no picture yet. After that, the attempt
 * fails, and the next one does not use the device (cv_stage_device). */
static int give_up_device(struct cv_picture_codec *codec, const char *reason,
                          struct cv_error *error)
{
    const char *refusal = cv_hardware_refusal(codec->hardware);
    reason = refusal[0] ? refusal : reason;
    if (codec->pictures > 0) {
        return cv_fail(error, CV_ERROR_IO,
                       "%s is not used any more after %lld pictures: %s; the CPU decodes in the "
                       "next attempt",
                       cv_hardware_name(codec->hardware), (long long)codec->pictures, reason);
    }
    log_refusal(cv_hardware_name(codec->hardware), reason);
    avcodec_free_context(&codec->context);
    cv_hardware_free(cv_take(codec->hardware));
    return cv_codec_open(codec->stream, codec->threads, NULL, &codec->context, error);
}

/* What FFmpeg reports as a packet or picture that cannot be decoded. */
static int report_failure(struct cv_picture_codec *codec, int av_error, struct cv_error *error)
{
    if (av_error == AVERROR(ENOMEM)) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a %s picture",
                       avcodec_get_name(codec->stream->codecpar->codec_id));
    }
    if (!codec->hardware) {
        return CV_PICTURE_DAMAGED;
    }
    char reason[AV_ERROR_MAX_STRING_SIZE],
        text[sizeof("a picture cannot be decoded: ") + sizeof(reason)];
    (void)av_make_error_string(reason, sizeof(reason), av_error);
    (void)snprintf(text, sizeof(text), "a picture cannot be decoded: %s", reason);
    return give_up_device(codec, text, error);
}

static int keep(struct cv_picture_codec *codec, const AVPacket *packet, struct cv_error *error)
{
    AVPacket *copy = av_packet_clone(packet);
    CV_TRY_MEMORY(copy, error, "a packet");
    codec->kept[codec->kept_count++] = copy;
    return codec->kept_count < KEPT_MAX
               ? 0
               : give_up_device(codec, "it gives no picture for the first packets", error);
}

static bool has_kept(const struct cv_picture_codec *codec)
{
    return !codec->hardware && codec->kept_sent < codec->kept_count;
}

static int send_kept(struct cv_picture_codec *codec, struct cv_error *error)
{
    int result = avcodec_send_packet(codec->context, codec->kept[codec->kept_sent++]);
    if (codec->kept_sent == codec->kept_count) {
        forget_kept(codec);
        if (codec->has_ended) {
            (void)avcodec_send_packet(codec->context, NULL);
        }
    }
    return result < 0 ? report_failure(codec, result, error) : 0;
}

/* ---- packets and pictures ---------------------------------------------------------------------- */

int cv_picture_codec_send(struct cv_picture_codec *codec, const AVPacket *packet,
                          struct cv_error *error)
{
    if (!packet) {
        codec->has_ended = true;
        (void)avcodec_send_packet(codec->context, NULL);
        return 0;
    }
    if (codec->hardware && codec->pictures == 0) {
        CV_TRY(keep(codec, packet, error));
    }
    if (codec->hardware && (packet->flags & AV_PKT_FLAG_CORRUPT)) {
        CV_TRY(give_up_device(codec, "a packet is damaged, and devices do not report that", error));
    }
    if (has_kept(codec)) {
        return 0; /* the packet is sent with those before it */
    }
    int result = avcodec_send_packet(codec->context, packet);
    return result < 0 ? report_failure(codec, result, error) : 0;
}

static bool is_damaged(const AVFrame *frame)
{
    return (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0 ||
           (frame->decode_error_flags &
            (FF_DECODE_ERROR_INVALID_BITSTREAM | FF_DECODE_ERROR_CONCEALMENT_ACTIVE)) != 0;
}

/* Brings a picture of the device into our memory. */
static int fetch(struct cv_picture_codec *codec, AVFrame *picture, struct cv_error *error)
{
    struct cv_error reason;
    if (cv_hardware_fetch(codec->hardware, picture, &reason) != 0) {
        av_frame_unref(picture);
        CV_TRY(give_up_device(codec, reason.message, error));
        return CV_PICTURE_NEEDS_PACKET;
    }
    if (codec->pictures++ == 0) {
        cv_log(CV_LOG_INFO, "%s decodes the pictures", cv_hardware_name(codec->hardware));
        forget_kept(codec);
    }
    return CV_PICTURE_TAKEN;
}

/* As cv_picture_codec_receive, which calls it again for packets that were kept. */
static int receive(struct cv_picture_codec *codec, AVFrame *picture, struct cv_error *error)
{
    int result = avcodec_receive_frame(codec->context, picture);
    if (result == AVERROR(EAGAIN)) {
        return CV_PICTURE_NEEDS_PACKET;
    }
    if (result == AVERROR_EOF) {
        if (!codec->hardware || codec->kept_count == 0) {
            return CV_PICTURE_END;
        }
        CV_TRY(give_up_device(codec, "it gives no picture", error));
        return CV_PICTURE_NEEDS_PACKET;
    }
    if (result == 0 && is_damaged(picture) && !codec->hardware) {
        return CV_PICTURE_TORN;
    }
    if (result < 0 || is_damaged(picture)) {
        av_frame_unref(picture);
        result = report_failure(codec, result < 0 ? result : AVERROR_INVALIDDATA, error);
        return result == 0 ? CV_PICTURE_NEEDS_PACKET : result;
    }
    return codec->hardware ? fetch(codec, picture, error) : CV_PICTURE_TAKEN;
}

int cv_picture_codec_receive(struct cv_picture_codec *codec, AVFrame *picture,
                             struct cv_error *error)
{
    for (;;) {
        int result = receive(codec, picture, error);
        if (result != CV_PICTURE_NEEDS_PACKET || !has_kept(codec)) {
            return result;
        }
        CV_TRY(send_kept(codec, error));
    }
}
