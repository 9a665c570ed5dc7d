#include "common/media/encoder.h"

#include "common/media/libav.h"

#include <libavutil/audio_fifo.h>
#include <libavutil/channel_layout.h>
#include <string.h>

/* ---- pictures -------------------------------------------------------------------------------- */

enum {
    GOP_MAX = 600,  /* frames; more than two seconds have, because keys are forced by time */
    GOP_CLIP = 120, /* frames between key frames if they are not forced */
    BUFFER_S = 2,   /* seconds; size of the decoder's buffer at the highest rate */
    FRAME_RATE_UNKNOWN = 30,
};

static void set_colours(AVCodecContext *encoder, const AVFrame *picture)
{
    bool was_rgb = picture->colorspace == AVCOL_SPC_RGB;
    encoder->colorspace = was_rgb ? AVCOL_SPC_SMPTE170M : picture->colorspace;
    encoder->color_primaries = picture->color_primaries;
    encoder->color_trc = picture->color_trc;
    encoder->color_range = AVCOL_RANGE_MPEG;
    encoder->chroma_sample_location = picture->chroma_location;
}

static void set_form(AVCodecContext *encoder, enum AVPixelFormat format,
                     const struct cv_video_encoder_params *params)
{
    double rate = params->frame_rate > 0 ? params->frame_rate : FRAME_RATE_UNKNOWN;
    encoder->width = params->width;
    encoder->height = params->height;
    encoder->pix_fmt = format;
    encoder->time_base = params->time_base;
    encoder->framerate = av_d2q(rate, 1001 * 240);
    encoder->thread_count = params->threads;
    encoder->gop_size = params->forced_keys ? GOP_MAX : GOP_CLIP;
    encoder->flags |= AV_CODEC_FLAG_CLOSED_GOP;
    encoder->flags |= params->global_header ? AV_CODEC_FLAG_GLOBAL_HEADER : 0;
    /* No B-frames: with reordered pictures, decoding starts before the first picture is shown, and
     * players that use the first decoding time (hls.js) show everything late by that, two frames as
     * measured. If the time stamps are shifted to hide it, players fill the holes wrongly. And an
     * MP4 stores how long each picture lasts in decoding order: the last one could not last. */
    encoder->max_b_frames = 0;
    encoder->rc_max_rate = params->max_rate;
    encoder->rc_buffer_size = params->max_rate * BUFFER_S;
    encoder->sample_aspect_ratio = params->first->sample_aspect_ratio;
    if (format == AV_PIX_FMT_YUV420P) {
        set_colours(encoder, params->first);
    }
}

enum { OPTIONS_MAX = 6 };

static const struct codec {
    const char *name;
    enum AVPixelFormat format;
    struct {
        const char *name, *value;
    } options[OPTIONS_MAX];
} codecs[] = {
    /* veryfast at CRF 23 keeps screen text sharp (x264 spends its bits on text), and a static screen
     * costs next to nothing. Slower presets take twice the time and save a few per cent. */
    [CV_VIDEO_H264] =
        {"libx264",
         AV_PIX_FMT_YUV420P,
         {{"preset", "veryfast"}, {"crf", "23"}, {"profile", "high"}, {"forced-idr", "1"}}},
    /* Constant quality at the speed of live encoding, tuned for screen content. */
    [CV_VIDEO_VP9] = {"libvpx-vp9",
                      AV_PIX_FMT_YUV420P,
                      {{"deadline", "realtime"},
                       {"cpu-used", "7"},
                       {"row-mt", "1"},
                       {"crf", "31"},
                       {"b", "0"},
                       {"tune-content", "screen"}}},
    [CV_VIDEO_GIF] = {"gif", AV_PIX_FMT_PAL8, {{NULL, NULL}}},
};

int cv_video_encoder_open(const struct cv_video_encoder_params *params,
                          AVCodecContext **ret_encoder, struct cv_error *error)
{
    const struct codec *wanted = &codecs[params->codec];
    const AVCodec *codec = avcodec_find_encoder_by_name(wanted->name);
    if (!codec) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "this FFmpeg has no %s", wanted->name);
    }
    cv_auto(cv_av_codec_free) AVCodecContext *encoder = avcodec_alloc_context3(codec);
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    bool good = encoder != NULL;
    for (size_t i = 0; good && i < OPTIONS_MAX && wanted->options[i].name; i++) {
        good = av_dict_set(&options, wanted->options[i].name, wanted->options[i].value, 0) >= 0;
    }
    CV_TRY_MEMORY(
        good && av_dict_set(&options, "sc_threshold", params->forced_keys ? "0" : "40", 0) >= 0,
        error, "an encoder");
    set_form(encoder, wanted->format, params);
    CV_TRY_AV(avcodec_open2(encoder, codec, &options), error, CV_ERROR_ENCODE,
              "cannot encode %d×%d with %s", params->width, params->height, wanted->name);
    *ret_encoder = cv_take(encoder);
    return 0;
}

/* ---- sound ----------------------------------------------------------------------------------- */

enum {
    CHANNELS = 2,
    BIT_RATE = 128 * 1000,     /* stereo AAC-LC: transparent for speech and interface sounds */
    FIFO_FIRST = 8192,         /* samples; it grows */
    HOLD_BACK = CV_SOUND_RATE, /* samples not yet encoded, so that the end can be cut */
};

struct cv_sound_encoder {
    struct cv_sound_encoder_params params;
    AVCodecContext *codec;
    struct cv_sound_line *line;
    AVAudioFifo *fifo; /* samples [encoded, the line's end) */
    AVFrame *frame;
    int64_t encoded; /* samples that went to the codec */
    int64_t end;     /* samples in all, when it is finished */
    bool finished;
};

static int keep_samples(void *opaque, uint8_t *const *planes, int count, struct cv_error *error)
{
    struct cv_sound_encoder *encoder = opaque;
    return av_audio_fifo_write(encoder->fifo, (void **)planes, count) < count
               ? cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for sound")
               : 0;
}

static int drain(void *opaque, struct cv_error *error)
{
    const struct cv_sound_encoder *encoder = opaque;
    return encoder->params.drain(encoder->params.opaque, error);
}

/* The line of samples that goes to the codec, in the codec's own format. */
static int open_line(struct cv_sound_encoder *encoder, struct cv_error *error)
{
    const struct cv_sound_line_params params = {
        .origin_us = encoder->params.origin_us,
        .rate = CV_SOUND_RATE,
        .channels = CHANNELS,
        .format = encoder->codec->sample_fmt,
        .cancel = encoder->params.cancel,
        .write = keep_samples,
        .drain = drain,
        .opaque = encoder,
    };
    encoder->fifo = av_audio_fifo_alloc(params.format, CHANNELS, FIFO_FIRST);
    CV_TRY_MEMORY(encoder->fifo, error, "a sound encoder");
    return cv_sound_line_new(&params, &encoder->line, error);
}

int cv_sound_encoder_new(const struct cv_sound_encoder_params *params,
                         struct cv_sound_encoder **ret_encoder, struct cv_error *error)
{
    const AVCodec *codec = params->opus ? avcodec_find_encoder_by_name("libopus")
                                        : avcodec_find_encoder(AV_CODEC_ID_AAC);
    if (!codec) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "this FFmpeg has no encoder for %s",
                       params->opus ? "Opus (libopus)" : "AAC");
    }
    cv_auto(cv_sound_encoder_free) struct cv_sound_encoder *encoder = calloc(1, sizeof(*encoder));
    if (encoder) {
        encoder->params = *params;
        encoder->codec = avcodec_alloc_context3(codec);
        encoder->frame = av_frame_alloc();
    }
    CV_TRY_MEMORY(encoder && encoder->codec && encoder->frame, error, "a sound encoder");
    encoder->codec->sample_rate = CV_SOUND_RATE;
    encoder->codec->sample_fmt = params->opus ? AV_SAMPLE_FMT_FLT : AV_SAMPLE_FMT_FLTP;
    encoder->codec->bit_rate = BIT_RATE;
    encoder->codec->time_base = (AVRational){1, CV_SOUND_RATE};
    av_channel_layout_default(&encoder->codec->ch_layout, CHANNELS);
    encoder->codec->thread_count = 1;
    if (params->global_header || params->opus) {
        encoder->codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    CV_TRY_AV(avcodec_open2(encoder->codec, codec, NULL), error, CV_ERROR_ENCODE,
              "cannot open the encoder %s", codec->name);
    CV_TRY(open_line(encoder, error));
    *ret_encoder = cv_take(encoder);
    return 0;
}

void cv_sound_encoder_free(struct cv_sound_encoder *encoder)
{
    if (encoder) {
        avcodec_free_context(&encoder->codec);
        cv_sound_line_free(encoder->line);
        av_audio_fifo_free(encoder->fifo);
        av_frame_free(&encoder->frame);
        free(encoder);
    }
}

const AVCodecContext *cv_sound_encoder_codec(const struct cv_sound_encoder *encoder)
{
    return encoder->codec;
}

int64_t cv_sound_encoder_end_us(const struct cv_sound_encoder *encoder)
{
    return cv_sound_line_end_us(encoder->line);
}

int cv_sound_encoder_write(struct cv_sound_encoder *encoder, const struct cv_sound *sound,
                           struct cv_error *error)
{
    return cv_sound_line_write(encoder->line, sound, error);
}

int cv_sound_encoder_pad(struct cv_sound_encoder *encoder, int64_t time_us, struct cv_error *error)
{
    return cv_sound_line_pad(encoder->line, time_us, error);
}

int cv_sound_encoder_finish(struct cv_sound_encoder *encoder, int64_t time_us,
                            struct cv_error *error)
{
    CV_TRY(cv_sound_line_finish(encoder->line, time_us, error));
    int64_t target = av_rescale(time_us - encoder->params.origin_us, CV_SOUND_RATE, AV_TIME_BASE);
    int64_t end = cv_sound_line_samples(encoder->line);
    end = target < end ? target : end;
    encoder->end = end > encoder->encoded ? end : encoder->encoded;
    encoder->finished = true;
    return 0;
}

/* ---- output ---------------------------------------------------------------------------------- */

static int send_samples(struct cv_sound_encoder *encoder, int samples, struct cv_error *error)
{
    AVFrame *frame = encoder->frame;
    av_frame_unref(frame);
    frame->nb_samples = samples;
    frame->format = encoder->codec->sample_fmt;
    frame->sample_rate = CV_SOUND_RATE;
    frame->pts = encoder->encoded;
    int result = av_channel_layout_copy(&frame->ch_layout, &encoder->codec->ch_layout);
    result = result < 0 ? result : av_frame_get_buffer(frame, 0);
    if (result >= 0 && av_audio_fifo_read(encoder->fifo, (void **)frame->data, samples) < samples) {
        result = AVERROR_BUG;
    }
    result = result < 0 ? result : avcodec_send_frame(encoder->codec, frame);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode the sound");
    }
    encoder->encoded += samples;
    return 0;
}

/* Sends one frame, or the end, to the codec; CV_SOUND_NEEDS_MORE if there is neither. */
static int feed(struct cv_sound_encoder *encoder, struct cv_error *error)
{
    int64_t end = encoder->finished ? encoder->end : cv_sound_line_samples(encoder->line);
    int64_t waiting = end - encoder->encoded;
    int frame_size = encoder->codec->frame_size;
    if (encoder->finished) {
        if (waiting == 0) {
            (void)avcodec_send_frame(encoder->codec, NULL);
            return 0;
        }
        return send_samples(encoder, waiting < frame_size ? (int)waiting : frame_size, error);
    }
    if (waiting < frame_size + HOLD_BACK) {
        return CV_SOUND_NEEDS_MORE;
    }
    return send_samples(encoder, frame_size, error);
}

int cv_sound_encoder_packet(struct cv_sound_encoder *encoder, AVPacket *packet,
                            struct cv_error *error)
{
    for (;;) {
        int result = avcodec_receive_packet(encoder->codec, packet);
        if (result == 0) {
            return CV_SOUND_PACKET;
        }
        if (result == AVERROR_EOF) {
            return CV_SOUND_END;
        }
        if (result != AVERROR(EAGAIN)) {
            return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode the sound");
        }
        CV_TRY(feed(encoder, error));
    }
}
