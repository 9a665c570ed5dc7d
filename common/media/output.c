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

AVRational cv_mp4_clock(AVRational source)
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

struct format {
    const char *muxer, *option, *value; /* of libavformat; an option of it */
    enum cv_video_codec codec;
    AVRational clock; /* time base of the pictures; 0/1: by the source's */
};

static const struct format formats[] = {
    [CV_OUTPUT_MP4] = {"mp4", "movflags", "+faststart", CV_VIDEO_H264, {0, 1}},
    [CV_OUTPUT_WEBM] = {"webm", "cues_to_front", "1", CV_VIDEO_VP9, {1, 1000}},
    [CV_OUTPUT_GIF] = {"gif", "loop", "0", CV_VIDEO_GIF, {1, 100}},
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
    const struct format *format;
    AVFormatContext *muxer; /* NULL before the first frame */
    const struct cv_media_info *source;
    char *path;
    struct cv_cancel *cancel;
    int threads;
    struct cv_fit *fit;
    struct cv_palette *palette; /* NULL but for GIF */
    enum cv_output_kind kind;
    int width, height;
    int max_frame_rate;    /* 0: none */
    AVRational clock;      /* time base of the pictures */
    int64_t step;          /* ticks from one frame to the next, at least */
    AVCodecContext *video; /* NULL before the first frame */
    struct cv_sound_encoder *sound;
    struct cv_packet_queue early; /* sound from before the first frame */
    AVFrame *held;                /* the newest picture, until it is known how long it is shown */
    int64_t held_at;              /* ticks; when it is shown */
    AVPacket *packet;
    int64_t frames;
    struct shown shown[IN_FLIGHT]; /* ring buffer, index: frame number */
};

/* ---- packets on their way into the file ------------------------------------------------------ */

/* Writes a packet; takes its data. libavformat orders those of both streams by time. */
static int write_packet(struct cv_output *output, AVPacket *packet, bool is_video,
                        struct cv_error *error)
{
    const AVStream *stream = output->muxer->streams[is_video ? 0 : 1];
    if (!is_video && output->kind == CV_OUTPUT_WEBM) {
        /* Players subtract CodecDelay. The length of the file is the end of its last packet, and is meant
         * without priming. */
        int64_t priming = stream->codecpar->initial_padding;
        int64_t lasts = packet->duration - priming;
        packet->pts += priming;
        packet->dts += priming;
        packet->duration = lasts > PACKET_MIN ? lasts : PACKET_MIN;
    }
    packet->stream_index = stream->index;
    av_packet_rescale_ts(packet, is_video ? output->clock : (AVRational){1, CV_SOUND_RATE},
                         stream->time_base);
    int result = av_interleaved_write_frame(output->muxer, packet);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write %s",
                                   output->format->muxer)
                      : 0;
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
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
            return 0;
        }
        if (result < 0) {
            return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode a picture");
        }
        output->packet->duration = duration_of(output, output->packet->pts);
        CV_TRY(write_packet(output, output->packet, true, error));
    }
}

static int collect_sound(struct cv_output *output, struct cv_error *error)
{
    while (output->sound) {
        int result = cv_sound_encoder_packet(output->sound, output->packet, error);
        if (result != CV_SOUND_PACKET) {
            return result < 0 ? result : 0;
        }
        CV_TRY(output->muxer ? write_packet(output, output->packet, false, error)
                             : cv_packet_queue_push(&output->early, output->packet, error));
    }
    return 0;
}

/* Writes what the encoders have ready. */
static int pump(struct cv_output *output, struct cv_error *error)
{
    CV_TRY(collect_sound(output, error));
    return output->muxer ? collect_video(output, error) : 0;
}

enum { SOUND_BEHIND_US = 10 * 1000 * 1000 }; /* if sound is this late, silence is written instead */

/* ---- life ------------------------------------------------------------------------------------ */

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
    output->format = &formats[params->kind];
    output->clock =
        output->format->clock.num ? output->format->clock : cv_mp4_clock(source->time_base);
    output->source = source;
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
        cv_av_file_free(output->muxer);
        avcodec_free_context(&output->video);
        cv_sound_encoder_free(output->sound);
        cv_packet_queue_deinit(&output->early);
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
    AVFormatContext *muxer = output->muxer;
    if (!muxer || output->kind == CV_OUTPUT_GIF) {
        return 0;
    }
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

/* ---- pictures -------------------------------------------------------------------------------- */

static int add_stream(struct cv_output *output, const AVCodecContext *codec, struct cv_error *error)
{
    AVStream *stream = avformat_new_stream(output->muxer, NULL);
    CV_TRY_MEMORY(stream && avcodec_parameters_from_context(stream->codecpar, codec) >= 0, error,
                  "a video file");
    stream->time_base = codec->time_base;
    stream->sample_aspect_ratio = codec->sample_aspect_ratio;
    return 0;
}

static int open_file(struct cv_output *output, struct cv_error *error)
{
    const struct format *format = output->format;
    CV_TRY_AV(avformat_alloc_output_context2(&output->muxer, NULL, format->muxer, output->path),
              error, CV_ERROR_ENCODE, "cannot open the muxer %s", format->muxer);
    output->muxer->max_interleave_delta = 0; /* however long a picture stands */
    CV_TRY(add_stream(output, output->video, error));
    CV_TRY(output->sound ? add_stream(output, cv_sound_encoder_codec(output->sound), error) : 0);
    CV_TRY(cv_av_file_begin(output->muxer, format->option, format->value, error));
    while (output->early.count > 0) {
        cv_auto(cv_av_packet_free) AVPacket *packet = cv_packet_queue_pop(&output->early);
        CV_TRY(write_packet(output, packet, false, error));
    }
    return 0;
}

static int open_streams(struct cv_output *output, const AVFrame *first, struct cv_error *error)
{
    struct cv_video_encoder_params params = {
        .codec = output->format->codec,
        .width = output->width,
        .height = output->height,
        .time_base = output->clock,
        .frame_rate = output->source->frame_rate,
        .threads = output->threads,
        .global_header = output->kind != CV_OUTPUT_GIF,
        .first = first,
    };
    if (output->max_frame_rate > 0 && params.frame_rate > output->max_frame_rate) {
        params.frame_rate = output->max_frame_rate;
    }
    CV_TRY(cv_video_encoder_open(&params, &output->video, error));
    return open_file(output, error);
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
    int64_t tick =
        av_rescale_q_rnd(time_us - ROUNDED_US, AV_TIME_BASE_Q, output->clock, AV_ROUND_UP);
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

/* Each picture of a GIF has a duration. That of the last picture must be set here, because no
 * picture follows. */
static int finish_file(struct cv_output *output, int64_t end, struct cv_error *error)
{
    if (output->kind == CV_OUTPUT_GIF) {
        int64_t stands = end - output->shown[(output->frames - 1) % IN_FLIGHT].ticks;
        stands = stands < GIF_DELAY_MIN ? GIF_DELAY_MIN : stands > UINT16_MAX ? UINT16_MAX : stands;
        CV_TRY_AV(av_opt_set_int(output->muxer->priv_data, "final_delay", stands, 0), error,
                  CV_ERROR_ENCODE, "cannot finish the GIF");
    }
    CV_TRY_AV(av_write_trailer(output->muxer), error, CV_ERROR_ENCODE, "cannot finish the %s file",
              output->format->muxer);
    return cv_av_file_end(output->muxer, NULL, error);
}

int cv_output_finish(struct cv_output *output, int64_t end_us,
                     struct cv_output_summary *ret_summary, struct cv_error *error)
{
    if (!output->held) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no frame was written to the output");
    }
    int64_t end = av_rescale_q(end_us, AV_TIME_BASE_Q, output->clock);
    CV_TRY(show_last(output, end, error));
    CV_TRY(output->sound ? cv_sound_encoder_finish(output->sound, end_us, error) : 0);
    CV_TRY_AV(avcodec_send_frame(output->video, NULL), error, CV_ERROR_ENCODE,
              "cannot end the pictures");
    CV_TRY(pump(output, error));
    CV_TRY(finish_file(output, end, error));
    *ret_summary = (struct cv_output_summary){
        .width = output->width,
        .height = output->height,
        .frames = output->frames,
        .duration_us = end_us,
        .sound = output->sound != NULL,
    };
    return 0;
}
