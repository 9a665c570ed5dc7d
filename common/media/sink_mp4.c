#include "common/media/averror.h"
#include "common/media/cleanup.h"
#include "common/media/sink.h"

enum {
    CLOCK_MIN = 10000,      /* ticks per second; coarser clocks are refined */
    CLOCK_MAX = 400 * 1000, /* finer ones gain nothing over microseconds */
    CLOCK_USUAL = 90000,    /* where the source's own cannot be used */
};

AVRational cv_sink_mp4_clock(AVRational source)
{
    AVRational clock = {1, CLOCK_USUAL};
    if (source.num == 1 && source.den > 0 && source.den <= CLOCK_MAX) {
        clock.den = source.den;
        while (clock.den < CLOCK_MIN) {
            clock.den *= 2;
        }
    }
    return clock;
}

/* One MP4 file, its index in front of the pictures. */
struct mp4 {
    AVFormatContext *muxer;
    AVRational time_base[2]; /* of the encoders */
};

static void mp4_close(void *sink)
{
    struct mp4 *mp4 = sink;
    if (mp4) {
        if (mp4->muxer) {
            (void)avio_closep(&mp4->muxer->pb);
        }
        avformat_free_context(mp4->muxer);
        free(mp4);
    }
}

static int add_stream(struct mp4 *mp4, const AVCodecContext *codec, struct cv_error *error)
{
    AVStream *stream = avformat_new_stream(mp4->muxer, NULL);
    if (!stream || avcodec_parameters_from_context(stream->codecpar, codec) < 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for an MP4 file");
    }
    stream->time_base = codec->time_base;
    stream->sample_aspect_ratio = codec->sample_aspect_ratio;
    mp4->time_base[stream->index] = codec->time_base;
    return 0;
}

static int mp4_open(const char *path, const struct cv_sink_streams *streams, void **ret_sink,
                    struct cv_error *error)
{
    struct mp4 *mp4 = calloc(1, sizeof(*mp4));
    if (!mp4) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for an MP4 file");
    }
    *ret_sink = mp4;
    int result = avformat_alloc_output_context2(&mp4->muxer, NULL, "mp4", path);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot open the MP4 muxer");
    }
    result = add_stream(mp4, streams->video, error);
    if (result == 0 && streams->audio) {
        result = add_stream(mp4, streams->audio, error);
    }
    if (result != 0) {
        return result;
    }
    result = avio_open2(&mp4->muxer->pb, path, AVIO_FLAG_WRITE, NULL, NULL);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_IO, "cannot create %s", path);
    }
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    result = av_dict_set(&options, "movflags", "+faststart", 0);
    result = result < 0 ? result : avformat_write_header(mp4->muxer, &options);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write MP4") : 0;
}

static int mp4_write(void *sink, AVPacket *packet, bool is_video, struct cv_error *error)
{
    struct mp4 *mp4 = sink;
    packet->stream_index = is_video ? 0 : 1;
    av_packet_rescale_ts(packet, mp4->time_base[packet->stream_index],
                         mp4->muxer->streams[packet->stream_index]->time_base);
    int result = av_write_frame(mp4->muxer, packet);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write MP4") : 0;
}

static int mp4_finish(void *sink, int64_t end_us, struct cv_error *error)
{
    struct mp4 *mp4 = sink;
    (void)end_us;
    int result = av_write_trailer(mp4->muxer);
    result = result < 0 ? result : mp4->muxer->pb->error;
    int closed = avio_closep(&mp4->muxer->pb);
    result = result < 0 ? result : closed;
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot finish the MP4 file")
                      : 0;
}

const struct cv_sink_type cv_sink_mp4 = {
    .open = mp4_open,
    .write = mp4_write,
    .finish = mp4_finish,
    .close = mp4_close,
    .global_header = true,
};
