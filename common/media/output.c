#include "common/media/output.h"

#include "common/media/encoder.h"
#include "common/media/filters.h"
#include "common/media/libav.h"
#include "common/media/scale.h"

#include <libavutil/opt.h>
#include <string.h>

/* ---- muxing into a file ---------------------------------------------------------------------- */

enum {
    CLOCK_ASKED = 1000,     /* ticks per second of the times that people ask for */
    CLOCK_MIN = 10000,      /* ticks per second; coarser clocks are refined */
    CLOCK_MAX = 450 * 1000, /* a tick is longer than the microseconds that times are rounded to */
    CLOCK_USUAL = 90000,    /* if the source's own clock cannot be used */
    PACKET_MIN = CV_SOUND_RATE / 1000, /* WebM's millisecond, because 0 is "unknown" */
    GIF_DELAY_MIN = 2, /* hundredths of a second; browsers take less for a tenth of a second */
};

AVRational cv_sink_mp4_clock(AVRational source)
{
    AVRational clock = {1, CLOCK_USUAL};
    if (source.num == 1 && source.den > 0) {
        int64_t rate = source.den / av_gcd(source.den, CLOCK_ASKED) * CLOCK_ASKED;
        while (rate < CLOCK_MIN) {
            rate *= 2;
        }
        clock.den = rate <= CLOCK_MAX ? (int)rate : CLOCK_USUAL;
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
        /* The length of the file is the end of its last packet, and is meant without priming. */
        int64_t lasts = packet->duration - priming;
        packet->duration = lasts > PACKET_MIN ? lasts : PACKET_MIN;
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

static int file_chapter(void *sink, int64_t start_us, int64_t end_us, const char *title,
                        struct cv_error *error)
{
    AVFormatContext *muxer = ((struct file *)sink)->muxer;
    AVChapter *chapter = av_mallocz(sizeof(*chapter));
    int count = (int)muxer->nb_chapters;
    if (chapter) {
        *chapter =
            (AVChapter){.id = count, .time_base = AV_TIME_BASE_Q, .start = start_us, .end = end_us};
    }
    if (!chapter || av_dict_set(&chapter->metadata, "title", title, 0) < 0 ||
        av_dynarray_add_nofree((void *)&muxer->chapters, &count, chapter) < 0) {
        if (chapter) {
            av_dict_free(&chapter->metadata);
        }
        av_free(chapter);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a chapter");
    }
    muxer->nb_chapters = (unsigned)count;
    return 0;
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
    stands = stands < GIF_DELAY_MIN ? GIF_DELAY_MIN : stands > UINT16_MAX ? UINT16_MAX : stands;
    CV_TRY_AV(av_opt_set_int(file->muxer->priv_data, "final_delay", stands, 0), error,
              CV_ERROR_ENCODE, "cannot finish the GIF");
    return file_finish(sink, end_us, error);
}

const struct cv_sink_type cv_sink_mp4 = {
    .open = mp4_open,
    .chapter = file_chapter,
    .write = file_write,
    .finish = file_finish,
    .close = file_close,
    .global_header = true,
};

const struct cv_sink_type cv_sink_webm = {
    .open = webm_open,
    .chapter = file_chapter,
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
    IN_FLIGHT = 512, /* most frames inside the encoder */
    ROUNDED_US = 1,  /* times of a source are rounded by so much */
};

struct shown {
    int64_t ticks, duration;
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
    int width, height;
    int max_frame_rate;    /* 0: none */
    int64_t origin_us;     /* time 0 of the output on the source's axis */
    AVRational clock;      /* time base of the pictures */
    int64_t step;          /* ticks from one frame to the next, at least */
    AVCodecContext *video; /* NULL before the first frame */
    struct cv_sound_encoder *sound;
    struct cv_packet_queue video_packets, sound_packets;
    bool video_done, sound_done;
    AVFrame *held;   /* the newest picture, until it is known how long it is shown */
    int64_t held_at; /* ticks; when it is shown */
    AVPacket *packet;
    int64_t frames;
    struct shown shown[IN_FLIGHT]; /* ring buffer, index: frame number */
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

enum { SOUND_BEHIND_US = 10 * 1000 * 1000 }; /* if sound is this late, silence is written instead */

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
    return cv_sound_encoder_new(&params, &output->sound, error);
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
    output->origin_us = params->origin_us;
    output->cancel = params->cancel;
    output->threads = params->threads < 1 ? 1 : params->threads;
    output->max_frame_rate = params->max_frame_rate;
    int step = params->max_frame_rate > 0 ? output->clock.den / params->max_frame_rate : 1;
    output->step = step > 1 ? step : 1;
    struct cv_fit_params fit = {.source_width = source->width, .source_height = source->height};
    cv_fit_size(source->width, source->height, params->max_side, &fit.width, &fit.height);
    output->width = fit.width;
    output->height = fit.height;
    CV_TRY(cv_format(&output->path, error, "%s", params->path));
    CV_TRY(cv_fit_new(&fit, &output->fit, error));
    CV_TRY(open_sound(output, error));
    *ret_output = cv_take(output);
    return 0;
}

void cv_output_free(struct cv_output *output)
{
    if (output) {
        output->type->close(output->sink);
        avcodec_free_context(&output->video);
        cv_sound_encoder_free(output->sound);
        cv_packet_queue_deinit(&output->video_packets);
        cv_packet_queue_deinit(&output->sound_packets);
        cv_fit_free(output->fit);
        cv_palette_free(output->palette);
        av_frame_free(&output->held);
        av_packet_free(&output->packet);
        free(output->path);
        free(output);
    }
}

int cv_output_sound(struct cv_output *output, const struct cv_sound *sound, struct cv_error *error)
{
    CV_TRY(output->sound ? cv_sound_encoder_write(output->sound, sound, error) : 0);
    return pump(output, error);
}

int cv_output_silence(struct cv_output *output, int64_t until_us, struct cv_error *error)
{
    CV_TRY(output->sound ? cv_sound_encoder_pad(output->sound, until_us, error) : 0);
    return pump(output, error);
}

int cv_output_chapter(struct cv_output *output, int64_t start_us, int64_t end_us, const char *title,
                      struct cv_error *error)
{
    bool is_possible = output->sink && output->type->chapter;
    return is_possible ? output->type->chapter(output->sink, start_us - output->origin_us,
                                               end_us - output->origin_us, title, error)
                       : 0;
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

static int open_streams(struct cv_output *output, const AVFrame *first, struct cv_error *error)
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
    if (output->max_frame_rate > 0 && params.frame_rate > output->max_frame_rate) {
        params.frame_rate = output->max_frame_rate;
    }
    CV_TRY(open_pictures(output, &params, error));
    struct cv_sink_streams streams = {
        .video = output->video,
        .audio = output->sound ? cv_sound_encoder_codec(output->sound) : NULL,
    };
    return output->type->open(output->path, &streams, &output->sink, error);
}

/* Makes the held picture what the encoder takes; av_frame_free the result. */
static int fit_held(struct cv_output *output, AVFrame **ret_picture, struct cv_error *error)
{
    CV_TRY(cv_fit_picture(output->fit, output->held, ret_picture, error));
    (*ret_picture)->sample_aspect_ratio = output->source->sample_aspect;
    if (output->kind == CV_OUTPUT_GIF && !output->palette) {
        CV_TRY(cv_palette_new(*ret_picture, &output->palette, error));
    }
    return output->palette ? cv_palette_apply(output->palette, ret_picture, error) : 0;
}

/* Encodes the held picture, which is shown until `until` ticks. */
static int show_held(struct cv_output *output, int64_t until, struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *picture = NULL;
    CV_TRY(fit_held(output, &picture, error));
    CV_TRY(output->video ? 0 : open_streams(output, picture, error));
    int64_t lasts = until - output->held_at;
    output->shown[output->frames % IN_FLIGHT] =
        (struct shown){output->held_at, lasts > 1 ? lasts : 1};
    output->frames++;
    picture->pts = output->held_at;
    picture->pict_type = AV_PICTURE_TYPE_NONE;
    CV_TRY_AV(avcodec_send_frame(output->video, picture), error, CV_ERROR_ENCODE,
              "cannot encode a picture");
    return pump(output, error);
}

/* The first tick that is not before `time_us`: at each tick the output shows what the source shows
 * at that time. */
static int64_t tick_of(const struct cv_output *output, int64_t time_us)
{
    int64_t tick = av_rescale_q_rnd(time_us - output->origin_us - ROUNDED_US, AV_TIME_BASE_Q,
                                    output->clock, AV_ROUND_UP);
    return tick > 0 ? tick : 0;
}

int cv_output_frame(struct cv_output *output, const struct cv_video_frame *frame,
                    struct cv_error *error)
{
    int64_t tick = tick_of(output, frame->pts_us);
    if (output->held && tick > output->held_at) {
        int64_t next = output->held_at + output->step;
        next = tick > next ? tick : next;
        CV_TRY(show_held(output, next, error));
        output->held_at = next;
    }
    av_frame_free(&output->held);
    output->held = av_frame_clone(frame->picture);
    CV_TRY_MEMORY(output->held, error, "a picture");
    return output->sound
               ? cv_sound_encoder_pad(output->sound, frame->pts_us - SOUND_BEHIND_US, error)
               : 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

enum { WEBM_LAST = 40 }; /* milliseconds; a picture of 25 per second */

/* Encodes the last picture, which is shown until `end` ticks. A WebM does not store how long a
 * picture is shown, and players end a silent one soon after its last picture. So one that is shown
 * for long is repeated shortly before the end. */
static int show_last(struct cv_output *output, int64_t end, struct cv_error *error)
{
    int64_t again = end - WEBM_LAST;
    if (output->kind == CV_OUTPUT_WEBM && again - output->held_at > WEBM_LAST) {
        CV_TRY(show_held(output, again, error));
        output->held_at = again;
    }
    int64_t least = output->kind == CV_OUTPUT_GIF ? GIF_DELAY_MIN : 1;
    bool is_seen = output->held_at + least <= end || output->frames == 0;
    return is_seen ? show_held(output, end, error) : 0;
}

int cv_output_finish(struct cv_output *output, int64_t end_us,
                     struct cv_output_summary *ret_summary, struct cv_error *error)
{
    if (!output->held) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no frame was written to the output");
    }
    int64_t length_us = end_us - output->origin_us;
    int64_t end = av_rescale_q(length_us, AV_TIME_BASE_Q, output->clock);
    CV_TRY(show_last(output, end, error));
    CV_TRY(output->sound ? cv_sound_encoder_finish(output->sound, end_us, error) : 0);
    CV_TRY_AV(avcodec_send_frame(output->video, NULL), error, CV_ERROR_ENCODE,
              "cannot end the pictures");
    CV_TRY(pump(output, error));
    CV_TRY(output->type->finish(output->sink, length_us, error));
    *ret_summary = (struct cv_output_summary){
        .width = output->width,
        .height = output->height,
        .frames = output->frames,
        .duration_us = length_us,
        .sound = output->sound != NULL,
    };
    return 0;
}
