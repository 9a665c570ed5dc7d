#include "common/media/picture_codec.h"

#include "common/media/info.h"
#include "common/media/libav.h"

/* Pixels in flight: eight pictures of 1080p, two of 4K. */
enum { THREADS_AREA_MAX = 16 << 20 };

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

int cv_codec_open(const AVStream *stream, int threads, AVCodecContext **ret_context,
                  struct cv_error *error)
{
    const AVCodec *codec = avcodec_find_decoder(stream->codecpar->codec_id);
    cv_auto(cv_av_codec_free) AVCodecContext *context = avcodec_alloc_context3(codec);
    CV_TRY_MEMORY(context && avcodec_parameters_to_context(context, stream->codecpar) >= 0, error,
                  "a decoder");
    context->pkt_timebase = stream->time_base;
    share_out_threads(context, threads);
    context->max_pixels = CV_MEDIA_AREA_MAX;
    context->flags |= AV_CODEC_FLAG_UNALIGNED; /* otherwise left edges are cropped in large steps */
    int result = avcodec_open2(context, codec, NULL);
    if (result < 0) {
        enum cv_error_type type =
            result == AVERROR_INVALIDDATA ? CV_ERROR_DECODE : CV_ERROR_UNSUPPORTED_MEDIA;
        return cv_fail_av(error, result, type, "cannot open the decoder %s", codec->name);
    }
    *ret_context = cv_take(context);
    return 0;
}

/* What FFmpeg reports as a packet or picture that cannot be decoded. */
static int read_failure(const AVCodecContext *context, int av_error, struct cv_error *error)
{
    return av_error == AVERROR(ENOMEM)
               ? cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a %s picture",
                         avcodec_get_name(context->codec_id))
               : CV_PICTURE_DAMAGED;
}

int cv_codec_send(AVCodecContext *context, const AVPacket *packet, struct cv_error *error)
{
    int result = avcodec_send_packet(context, packet);
    return result < 0 && packet ? read_failure(context, result, error) : 0;
}

static bool is_damaged(const AVFrame *frame)
{
    return (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0 ||
           (frame->decode_error_flags &
            (FF_DECODE_ERROR_INVALID_BITSTREAM | FF_DECODE_ERROR_CONCEALMENT_ACTIVE)) != 0;
}

int cv_codec_receive(AVCodecContext *context, AVFrame *picture, struct cv_error *error)
{
    int result = avcodec_receive_frame(context, picture);
    if (result == AVERROR(EAGAIN)) {
        return CV_PICTURE_NEEDS_PACKET;
    }
    if (result == AVERROR_EOF) {
        return CV_PICTURE_END;
    }
    if (result < 0) {
        av_frame_unref(picture);
        return read_failure(context, result, error);
    }
    return is_damaged(picture) ? CV_PICTURE_TORN : CV_PICTURE_TAKEN;
}
