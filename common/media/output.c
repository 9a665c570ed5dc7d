#include "common/media/output.h"

#include "common/media/cadence.h"
#include "common/media/encoder.h"
#include "common/media/filters.h"
#include "common/media/libav.h"
#include "common/media/scale.h"

#include <libavutil/opt.h>
#include <string.h>

/* ---- muxing into a file ---------------------------------------------------------------------- */

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
    CV_TRY_AV(avformat_alloc_output_context2(&file->muxer, NULL, format, path), error,
              CV_ERROR_ENCODE, "cannot open the muxer %s", format);
    CV_TRY(add_stream(file, streams->video, error));
    CV_TRY(streams->audio ? add_stream(file, streams->audio, error) : 0);
    CV_TRY_AV(avio_open2(&file->muxer->pb, path, AVIO_FLAG_WRITE, NULL, NULL), error, CV_ERROR_IO,
              "cannot create %s", path);
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    int result = av_dict_set(&options, option, value, 0);
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
    CV_TRY(file_open("webm", "cues_to_front", "1", path, streams, ret_sink, error));
    struct file *file = *ret_sink;
    file->counts_priming = true; /* players subtract CodecDelay */
    return 0;
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
    CV_TRY_AV(av_opt_set_int(file->muxer->priv_data, "final_delay", stands, 0), error,
              CV_ERROR_ENCODE, "cannot finish the GIF");
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

/* ---- an output ------------------------------------------------------------------------------- */

enum {
    EARLY_MAX = 4096, /* blocks of sound kept until the first frame is known */
    IN_FLIGHT = 512,  /* most frames inside the encoder */
};

struct shown {
    int64_t ticks, duration;
};

struct early_sound {
    AVFrame *samples;
    int64_t pts_us;
};

struct cv_output {
    const struct cv_sink_type *type;
    void *sink;
    const struct cv_media_info *source;
    char *path;
    struct cv_cancel *cancel;
    int threads;
    struct cv_fit *fit;
    struct cv_palette *palette; /* NULL but for GIF */
    enum cv_output_kind kind;
    struct cv_cadence cadence;
    int width, height;
    AVRational clock;      /* time base of the pictures */
    AVCodecContext *video; /* NULL before the first frame */
    struct cv_sound_encoder *sound;
    struct cv_packet_queue video_packets, sound_packets;
    bool video_done, sound_done;
    AVFrame *last; /* the newest picture, as encoded */
    AVPacket *packet;
    int64_t origin_us; /* time 0 of the output on the source's axis */
    int64_t last_ticks;
    int64_t video_end_us; /* end of the newest frame */
    int64_t frames;
    struct shown shown[IN_FLIGHT]; /* ring buffer, index: frame number */
    struct early_sound early[EARLY_MAX];
    size_t early_count;
};

/* ---- packets on their way into the file ------------------------------------------------------ */

/* Whether the sound packet is written first. Packets are ordered by decoding time, but key frames
 * by presentation time, so that the sound of a segment is written before the cut that follows it. */
static bool sound_is_next(const struct cv_output *output, const AVPacket *video,
                          const AVPacket *sound)
{
    int64_t time = video->flags & AV_PKT_FLAG_KEY ? video->pts : video->dts;
    return av_compare_ts(sound->dts, (AVRational){1, CV_SOUND_RATE}, time, output->clock) < 0;
}

static int write_packets(struct cv_output *output, struct cv_error *error)
{
    for (;;) {
        const AVPacket *video = cv_packet_queue_peek(&output->video_packets);
        const AVPacket *sound = cv_packet_queue_peek(&output->sound_packets);
        bool more_video = !video && !output->video_done;
        bool more_sound = !sound && output->sound && !output->sound_done;
        if (more_video || more_sound || (!video && !sound)) {
            return 0;
        }
        bool is_video = !sound || (video && !sound_is_next(output, video, sound));
        cv_auto(cv_av_packet_free) AVPacket *packet =
            cv_packet_queue_pop(is_video ? &output->video_packets : &output->sound_packets);
        CV_TRY(output->type->write(output->sink, packet, is_video, error));
    }
}

static int64_t duration_of(const struct cv_output *output, int64_t ticks)
{
    int64_t oldest = output->frames > IN_FLIGHT ? output->frames - IN_FLIGHT : 0;
    for (int64_t i = output->frames - 1; i >= oldest; i--) {
        if (output->shown[i % IN_FLIGHT].ticks == ticks) {
            return output->shown[i % IN_FLIGHT].duration;
        }
    }
    return 0;
}

static int collect_video(struct cv_output *output, struct cv_error *error)
{
    for (;;) {
        int result = avcodec_receive_packet(output->video, output->packet);
        if (result == AVERROR(EAGAIN)) {
            return 0;
        }
        if (result == AVERROR_EOF) {
            output->video_done = true;
            return 0;
        }
        if (result < 0) {
            return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode a picture");
        }
        output->packet->duration = duration_of(output, output->packet->pts);
        CV_TRY(cv_packet_queue_push(&output->video_packets, output->packet, error));
    }
}

static int collect_sound(struct cv_output *output, struct cv_error *error)
{
    while (output->sound && !output->sound_done) {
        int result = cv_sound_encoder_packet(output->sound, output->packet, error);
        if (result == CV_SOUND_END) {
            output->sound_done = true;
        }
        if (result != CV_SOUND_PACKET) {
            return result < 0 ? result : 0;
        }
        CV_TRY(cv_packet_queue_push(&output->sound_packets, output->packet, error));
    }
    return 0;
}

/* Writes the encoders' packets to the sink, in order. Packets wait until the sink is open, which is
 * at the first frame. */
static int pump(struct cv_output *output, struct cv_error *error)
{
    CV_TRY(collect_sound(output, error));
    if (!output->video) {
        return 0;
    }
    CV_TRY(collect_video(output, error));
    return write_packets(output, error);
}

enum {
    SOUND_BEHIND_US = 10 * 1000 * 1000, /* if sound is this late, silence is written instead */
    SOUND_BEYOND_US = 1000 * 1000,      /* sound is kept if it exceeds the pictures by this */
};

static const struct cv_sink_type *const sinks[] = {
    [CV_OUTPUT_MP4] = &cv_sink_mp4,
    [CV_OUTPUT_WEBM] = &cv_sink_webm,
    [CV_OUTPUT_GIF] = &cv_sink_gif,
};

/* ---- life ------------------------------------------------------------------------------------ */

static AVRational clock_of(enum cv_output_kind kind, AVRational source)
{
    switch (kind) {
    case CV_OUTPUT_WEBM:
        return (AVRational){1, 1000};
    case CV_OUTPUT_GIF:
        return (AVRational){1, 100};
    default:
        return cv_sink_mp4_clock(source);
    }
}

int cv_output_new(const struct cv_output_params *params, struct cv_output **ret_output,
                  struct cv_error *error)
{
    cv_media_capture_log();
    const struct cv_media_info *source = params->source;
    cv_auto(cv_output_free) struct cv_output *output = calloc(1, sizeof(*output));
    CV_TRY_MEMORY(output && (output->packet = av_packet_alloc()), error, "an output");
    output->kind = params->kind;
    output->type = sinks[params->kind];
    output->clock = clock_of(params->kind, source->time_base);
    output->source = source;
    output->cancel = params->cancel;
    output->threads = params->threads < 1 ? 1 : params->threads;
    output->last_ticks = INT64_MIN;
    int64_t frame_us = params->max_frame_rate > 0 ? AV_TIME_BASE / params->max_frame_rate : 0;
    cv_cadence_init(&output->cadence, frame_us, 0, 0);
    struct cv_fit_params fit = {.source_width = source->width, .source_height = source->height};
    cv_fit_size(source->width, source->height, params->max_side, &fit.width, &fit.height);
    output->width = fit.width;
    output->height = fit.height;
    CV_TRY(cv_format(&output->path, error, "%s", params->path));
    CV_TRY(cv_fit_new(&fit, &output->fit, error));
    *ret_output = cv_take(output);
    return 0;
}

void cv_output_free(struct cv_output *output)
{
    if (output) {
        for (size_t i = 0; i < output->early_count; i++) {
            av_frame_free(&output->early[i].samples);
        }
        output->type->close(output->sink);
        avcodec_free_context(&output->video);
        cv_sound_encoder_free(output->sound);
        cv_packet_queue_deinit(&output->video_packets);
        cv_packet_queue_deinit(&output->sound_packets);
        cv_fit_free(output->fit);
        cv_palette_free(output->palette);
        av_frame_free(&output->last);
        av_packet_free(&output->packet);
        free(output->path);
        free(output);
    }
}

/* ---- sound ----------------------------------------------------------------------------------- */

static int keep_early(struct cv_output *output, const struct cv_sound *sound,
                      struct cv_error *error)
{
    if (sound->pts_us == AV_NOPTS_VALUE) {
        return 0;
    }
    if (output->early_count == EARLY_MAX) {
        av_frame_free(&output->early[0].samples);
        output->early_count--;
        for (size_t i = 0; i < output->early_count; i++) {
            output->early[i] = output->early[i + 1];
        }
    }
    AVFrame *samples = av_frame_clone(sound->samples);
    CV_TRY_MEMORY(samples, error, "sound");
    output->early[output->early_count++] = (struct early_sound){samples, sound->pts_us};
    return 0;
}

static int write_early(struct cv_output *output, struct cv_error *error)
{
    int result = 0;
    for (size_t i = 0; i < output->early_count; i++) {
        struct cv_sound sound = {output->early[i].samples, output->early[i].pts_us, 0};
        result = result ? result : cv_sound_encoder_write(output->sound, &sound, error);
        av_frame_free(&output->early[i].samples);
    }
    output->early_count = 0;
    return result;
}

int cv_output_sound(struct cv_output *output, const struct cv_sound *sound, struct cv_error *error)
{
    if (!output->sound) {
        return keep_early(output, sound, error);
    }
    CV_TRY(cv_sound_encoder_write(output->sound, sound, error));
    return pump(output, error);
}

/* ---- pictures -------------------------------------------------------------------------------- */

static int open_pictures(struct cv_output *output, const struct cv_video_encoder_params *params,
                         struct cv_error *error)
{
    switch (output->kind) {
    case CV_OUTPUT_WEBM:
        return cv_vp9_encoder_open(params, &output->video, error);
    case CV_OUTPUT_GIF:
        return cv_gif_encoder_open(params, &output->video, error);
    default:
        return cv_video_encoder_open(params, &output->video, error);
    }
}

static int drain_sound(void *opaque, struct cv_error *error)
{
    return pump(opaque, error);
}

static int open_sound(struct cv_output *output, struct cv_error *error)
{
    if (output->kind == CV_OUTPUT_GIF || output->source->audio_codec[0] == '\0') {
        return 0;
    }
    struct cv_sound_encoder_params params = {
        .origin_us = output->origin_us,
        .opus = output->kind == CV_OUTPUT_WEBM,
        .global_header = true,
        .cancel = output->cancel,
        .drain = drain_sound,
        .opaque = output,
    };
    CV_TRY(cv_sound_encoder_new(&params, &output->sound, error));
    return write_early(output, error);
}

static int open_streams(struct cv_output *output, const AVFrame *first, int64_t pts_us,
                        struct cv_error *error)
{
    struct cv_video_encoder_params params = {
        .width = output->width,
        .height = output->height,
        .time_base = output->clock,
        .frame_rate = output->source->frame_rate,
        .threads = output->threads,
        .global_header = output->type->global_header,
        .first = first,
    };
    double rate_max = output->cadence.frame_us > 0 ? 1e6 / (double)output->cadence.frame_us : 0;
    if (rate_max > 0 && params.frame_rate > rate_max) {
        params.frame_rate = rate_max;
    }
    CV_TRY(open_pictures(output, &params, error));
    output->origin_us = pts_us;
    CV_TRY(open_sound(output, error));
    struct cv_sink_streams streams = {
        .video = output->video,
        .audio = output->sound ? cv_sound_encoder_codec(output->sound) : NULL,
    };
    return output->type->open(output->path, &streams, &output->sink, error);
}

/* Encodes the newest picture at `pts_us`. */
static int show(struct cv_output *output, int64_t pts_us, int64_t duration_us,
                struct cv_error *error)
{
    int64_t ticks = av_rescale_q(pts_us - output->origin_us, AV_TIME_BASE_Q, output->clock);
    if (ticks <= output->last_ticks) {
        return 0; /* two frames in one tick: a player could show only one */
    }
    int64_t end =
        av_rescale_q(pts_us + duration_us - output->origin_us, AV_TIME_BASE_Q, output->clock);
    output->shown[output->frames % IN_FLIGHT] =
        (struct shown){ticks, end > ticks ? end - ticks : 1};
    output->frames++;
    output->last_ticks = ticks;

    AVFrame *picture = output->last;
    picture->pts = ticks;
    picture->pict_type = AV_PICTURE_TYPE_NONE;
    CV_TRY_AV(avcodec_send_frame(output->video, picture), error, CV_ERROR_ENCODE,
              "cannot encode a picture");
    CV_TRY(output->sound ? cv_sound_encoder_pad(output->sound, pts_us - SOUND_BEHIND_US, error)
                         : 0);
    return pump(output, error);
}

int cv_output_frame(struct cv_output *output, const struct cv_video_frame *frame,
                    struct cv_error *error)
{
    output->video_end_us = frame->pts_us + frame->duration_us;
    if (!cv_cadence_admit(&output->cadence, frame->pts_us)) {
        return 0;
    }
    av_frame_free(&output->last);
    CV_TRY(cv_fit_picture(output->fit, frame->picture, &output->last, error));
    output->last->sample_aspect_ratio = output->source->sample_aspect;
    if (output->kind == CV_OUTPUT_GIF && !output->palette) {
        CV_TRY(cv_palette_new(output->last, &output->palette, error));
    }
    if (output->palette) {
        CV_TRY(cv_palette_apply(output->palette, &output->last, error));
    }
    if (!output->video) {
        CV_TRY(open_streams(output, output->last, frame->pts_us, error));
    }
    return show(output, frame->pts_us, frame->duration_us, error);
}

/* ---- the end --------------------------------------------------------------------------------- */

static int64_t natural_end_us(const struct cv_output *output)
{
    int64_t end_us = output->video_end_us;
    int64_t sound_us = output->sound ? cv_sound_encoder_end_us(output->sound) : 0;
    bool sound_counts = sound_us > end_us + SOUND_BEYOND_US;
    return sound_counts ? sound_us : end_us;
}

/* Extends the last frame's duration to the end of the output. */
static void stretch_last(struct cv_output *output, int64_t end_us)
{
    int64_t end = av_rescale_q(end_us - output->origin_us, AV_TIME_BASE_Q, output->clock);
    struct shown *last = &output->shown[(output->frames - 1) % IN_FLIGHT];
    last->duration = end > last->ticks ? end - last->ticks : 1;
}

int cv_output_finish(struct cv_output *output, int64_t end_us,
                     struct cv_output_summary *ret_summary, struct cv_error *error)
{
    if (!output->video) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no frame was written to the output");
    }
    int64_t natural_us = natural_end_us(output);
    end_us = natural_us < end_us ? natural_us : end_us;
    stretch_last(output, end_us);
    if (output->sound) {
        CV_TRY(cv_sound_encoder_finish(output->sound, end_us, error));
    }
    int flushed = avcodec_send_frame(output->video, NULL);
    if (flushed < 0) {
        return cv_fail_av(error, flushed, CV_ERROR_ENCODE, "cannot end the pictures");
    }
    CV_TRY(pump(output, error));
    CV_TRY(output->type->finish(output->sink, end_us - output->origin_us, error));
    *ret_summary = (struct cv_output_summary){
        .width = output->width,
        .height = output->height,
        .frames = output->frames,
        .duration_us = end_us - output->origin_us,
        .sound = output->sound != NULL,
    };
    return 0;
}
