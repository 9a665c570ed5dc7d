#include "common/media/file_muxer.h"

#include "common/media/libav.h"

#include <libavutil/opt.h>
#include <string.h>

enum {
    CLOCK_MIN = 10000,      /* ticks per second; coarser clocks are refined */
    CLOCK_MAX = 400 * 1000, /* finer clocks gain nothing over microseconds */
    CLOCK_USUAL = 90000,    /* if the source's own clock cannot be used */
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

/* One file through one of FFmpeg's muxers. */
struct file {
    AVFormatContext *muxer;
    AVRational time_base[2]; /* of the encoders */
    int64_t last_pts;        /* of the pictures, in the muxer's time base */
    bool counts_priming;     /* sound starts at its first coded sample, priming included */
};

static void file_close(void *sink)
{
    struct file *file = sink;
    if (file) {
        if (file->muxer) {
            (void)avio_closep(&file->muxer->pb);
        }
        avformat_free_context(file->muxer);
        free(file);
    }
}

static int add_stream(struct file *file, const AVCodecContext *codec, struct cv_error *error)
{
    AVStream *stream = avformat_new_stream(file->muxer, NULL);
    CV_TRY_MEMORY(stream && avcodec_parameters_from_context(stream->codecpar, codec) >= 0, error,
                  "a video file");
    stream->time_base = codec->time_base;
    stream->sample_aspect_ratio = codec->sample_aspect_ratio;
    file->time_base[stream->index] = codec->time_base;
    return 0;
}

/* Sets `option` of the muxer to `value`. */
static int file_open(const char *format, const char *option, const char *value, const char *path,
                     const struct cv_sink_streams *streams, void **ret_sink, struct cv_error *error)
{
    struct file *file = calloc(1, sizeof(*file));
    CV_TRY_MEMORY(file, error, "a video file");
    *ret_sink = file;
    int result = avformat_alloc_output_context2(&file->muxer, NULL, format, path);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot open the muxer %s", format);
    }
    result = add_stream(file, streams->video, error);
    if (result == 0 && streams->audio) {
        result = add_stream(file, streams->audio, error);
    }
    if (result != 0) {
        return result;
    }
    result = avio_open2(&file->muxer->pb, path, AVIO_FLAG_WRITE, NULL, NULL);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_IO, "cannot create %s", path);
    }
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    result = av_dict_set(&options, option, value, 0);
    result = result < 0 ? result : avformat_write_header(file->muxer, &options);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write %s", format) : 0;
}

static int file_write(void *sink, AVPacket *packet, bool is_video, struct cv_error *error)
{
    struct file *file = sink;
    packet->stream_index = is_video ? 0 : 1;
    if (!is_video && file->counts_priming) {
        int64_t priming = file->muxer->streams[1]->codecpar->initial_padding;
        packet->pts += priming;
        packet->dts += priming;
    }
    av_packet_rescale_ts(packet, file->time_base[packet->stream_index],
                         file->muxer->streams[packet->stream_index]->time_base);
    file->last_pts = is_video ? packet->pts : file->last_pts;
    int result = av_write_frame(file->muxer, packet);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write %s",
                                   file->muxer->oformat->name)
                      : 0;
}

static int file_finish(void *sink, int64_t end_us, struct cv_error *error)
{
    struct file *file = sink;
    (void)end_us;
    int result = av_write_trailer(file->muxer);
    result = result < 0 ? result : file->muxer->pb->error;
    int closed = avio_closep(&file->muxer->pb);
    result = result < 0 ? result : closed;
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot finish the %s file",
                                   file->muxer->oformat->name)
                      : 0;
}

/* ---- MP4, WebM, GIF -------------------------------------------------------------------------- */

static int mp4_open(const char *path, const struct cv_sink_streams *streams, void **ret_sink,
                    struct cv_error *error)
{
    return file_open("mp4", "movflags", "+faststart", path, streams, ret_sink, error);
}

static int webm_open(const char *path, const struct cv_sink_streams *streams, void **ret_sink,
                     struct cv_error *error)
{
    int result = file_open("webm", "cues_to_front", "1", path, streams, ret_sink, error);
    if (result == 0) {
        struct file *file = *ret_sink;
        file->counts_priming = true; /* players subtract CodecDelay */
    }
    return result;
}

static int gif_open(const char *path, const struct cv_sink_streams *streams, void **ret_sink,
                    struct cv_error *error)
{
    return file_open("gif", "loop", "0", path, streams, ret_sink, error);
}

/* Each picture of a GIF has a duration. That of the last picture must be set here, because no
 * picture follows. */
static int gif_finish(void *sink, int64_t end_us, struct cv_error *error)
{
    struct file *file = sink;
    int64_t end = av_rescale_q(end_us, AV_TIME_BASE_Q, file->muxer->streams[0]->time_base);
    int64_t stands = end - file->last_pts;
    stands = stands < 1 ? 1 : stands > UINT16_MAX ? UINT16_MAX : stands;
    int result = av_opt_set_int(file->muxer->priv_data, "final_delay", stands, 0);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot finish the GIF");
    }
    return file_finish(sink, end_us, error);
}

const struct cv_sink_type cv_sink_mp4 = {
    .open = mp4_open,
    .write = file_write,
    .finish = file_finish,
    .close = file_close,
    .global_header = true,
};

const struct cv_sink_type cv_sink_webm = {
    .open = webm_open,
    .write = file_write,
    .finish = file_finish,
    .close = file_close,
    .global_header = true,
};

const struct cv_sink_type cv_sink_gif = {
    .open = gif_open,
    .write = file_write,
    .finish = gif_finish,
    .close = file_close,
    .global_header = false,
};
