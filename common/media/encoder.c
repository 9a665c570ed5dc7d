#include "common/media/encoder.h"

#include "common/media/libav.h"

#include <libavutil/audio_fifo.h>
#include <libavutil/channel_layout.h>
#include <libavutil/opt.h>
#include <libswresample/swresample.h>
#include <string.h>

/* ---- H.264 ----------------------------------------------------------------------------------- */

enum {
    GOP_MAX = 600,  /* frames; more than two seconds have, because keys are forced by time */
    GOP_CLIP = 120, /* frames between key frames if they are not forced */
    BUFFER_S = 2,   /* seconds; size of the decoder's buffer at the highest rate */
    FRAME_RATE_UNKNOWN = 30,
};

/* veryfast at CRF 23 keeps screen text sharp (x264 spends its bits on text), and a static screen
 * costs next to nothing. Slower presets take twice the time and save a few per cent. */
static const char *const preset = "veryfast";
static const char *const rate_factor = "23";

static void set_colours(AVCodecContext *encoder, const AVFrame *picture)
{
    bool was_rgb = picture->colorspace == AVCOL_SPC_RGB;
    encoder->colorspace = was_rgb ? AVCOL_SPC_SMPTE170M : picture->colorspace;
    encoder->color_primaries = picture->color_primaries;
    encoder->color_trc = picture->color_trc;
    encoder->color_range = AVCOL_RANGE_MPEG;
    encoder->chroma_sample_location = picture->chroma_location;
    encoder->sample_aspect_ratio = picture->sample_aspect_ratio;
}

int cv_video_encoder_open(const struct cv_video_encoder_params *params,
                          AVCodecContext **ret_encoder, struct cv_error *error)
{
    const AVCodec *codec = avcodec_find_encoder_by_name("libx264");
    if (!codec) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "this FFmpeg has no libx264");
    }
    cv_auto(cv_av_codec_free) AVCodecContext *encoder = avcodec_alloc_context3(codec);
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    CV_TRY_MEMORY(encoder && av_dict_set(&options, "preset", preset, 0) >= 0 &&
                      av_dict_set(&options, "crf", rate_factor, 0) >= 0 &&
                      av_dict_set(&options, "profile", "high", 0) >= 0 &&
                      av_dict_set(&options, "forced-idr", "1", 0) >= 0 &&
                      av_dict_set(&options, "sc_threshold", params->forced_keys ? "0" : "40", 0) >=
                          0,
                  error, "an encoder");
    encoder->width = params->width;
    encoder->height = params->height;
    encoder->pix_fmt = AV_PIX_FMT_YUV420P;
    encoder->time_base = params->time_base;
    double rate = params->frame_rate > 0 ? params->frame_rate : FRAME_RATE_UNKNOWN;
    encoder->framerate = av_d2q(rate, 1001 * 240);
    encoder->thread_count = params->threads;
    encoder->gop_size = params->forced_keys ? GOP_MAX : GOP_CLIP;
    encoder->flags |= AV_CODEC_FLAG_CLOSED_GOP;
    /* No B-frames: with reordered pictures, decoding starts before the first picture is shown, and
     * players that use the first decoding time (hls.js) show everything late by that, two frames as
     * measured. If the time stamps are shifted to hide it, players fill the holes wrongly. And an
     * MP4 stores how long each picture lasts in decoding order: the last one could not last. */
    encoder->max_b_frames = 0;
    if (params->max_rate > 0) {
        encoder->rc_max_rate = params->max_rate;
        encoder->rc_buffer_size = params->max_rate * BUFFER_S;
    }
    if (params->global_header) {
        encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    set_colours(encoder, params->first);
    CV_TRY_AV(avcodec_open2(encoder, codec, &options), error, CV_ERROR_ENCODE,
              "cannot encode %d×%d H.264", params->width, params->height);
    *ret_encoder = cv_take(encoder);
    return 0;
}

/* ---- VP9 and GIF ----------------------------------------------------------------------------- */

enum { KEY_DISTANCE = 120 };

struct option {
    const char *name, *value;
};

static int open_encoder(const char *name, enum AVPixelFormat format, const struct option *options,
                        size_t count, const struct cv_video_encoder_params *params,
                        AVCodecContext **ret_encoder, struct cv_error *error)
{
    const AVCodec *codec = avcodec_find_encoder_by_name(name);
    if (!codec) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "this FFmpeg has no %s", name);
    }
    cv_auto(cv_av_codec_free) AVCodecContext *encoder = avcodec_alloc_context3(codec);
    cv_auto(cv_av_dict_free) AVDictionary *dictionary = NULL;
    bool good = encoder != NULL;
    for (size_t i = 0; good && i < count; i++) {
        good = av_dict_set(&dictionary, options[i].name, options[i].value, 0) >= 0;
    }
    CV_TRY_MEMORY(good, error, "an encoder");
    double rate = params->frame_rate > 0 ? params->frame_rate : FRAME_RATE_UNKNOWN;
    encoder->width = params->width;
    encoder->height = params->height;
    encoder->pix_fmt = format;
    encoder->time_base = params->time_base;
    encoder->framerate = av_d2q(rate, 1001 * 240);
    encoder->thread_count = params->threads;
    encoder->gop_size = KEY_DISTANCE;
    encoder->sample_aspect_ratio = params->first->sample_aspect_ratio;
    if (params->global_header) {
        encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    if (format == AV_PIX_FMT_YUV420P) {
        bool was_rgb = params->first->colorspace == AVCOL_SPC_RGB;
        encoder->colorspace = was_rgb ? AVCOL_SPC_SMPTE170M : params->first->colorspace;
        encoder->color_range = AVCOL_RANGE_MPEG;
    }
    CV_TRY_AV(avcodec_open2(encoder, codec, &dictionary), error, CV_ERROR_ENCODE,
              "cannot encode %d×%d with %s", params->width, params->height, name);
    *ret_encoder = cv_take(encoder);
    return 0;
}

/* Constant quality at the speed of live encoding, tuned for screen content. */
int cv_vp9_encoder_open(const struct cv_video_encoder_params *params, AVCodecContext **ret_encoder,
                        struct cv_error *error)
{
    static const struct option options[] = {
        {"deadline", "realtime"},   {"cpu-used", "7"}, {"row-mt", "1"}, {"crf", "31"}, {"b", "0"},
        {"tune-content", "screen"},
    };
    return open_encoder("libvpx-vp9", AV_PIX_FMT_YUV420P, options, CV_COUNT(options), params,
                        ret_encoder, error);
}

int cv_gif_encoder_open(const struct cv_video_encoder_params *params, AVCodecContext **ret_encoder,
                        struct cv_error *error)
{
    return open_encoder("gif", AV_PIX_FMT_PAL8, NULL, 0, params, ret_encoder, error);
}

/* ---- sound ----------------------------------------------------------------------------------- */

enum {
    CHANNELS = 2,
    BIT_RATE = 128 * 1000,        /* stereo AAC-LC: transparent for speech and interface sounds */
    JITTER_US = 40 * 1000,        /* smaller deviations of time stamps are ignored as jitter */
    SILENCE_CHUNK = 8192,         /* samples written at a time */
    SILENCE_STEP = CV_SOUND_RATE, /* samples between two checks of the cancel object */
    HOLD_BACK = CV_SOUND_RATE,    /* samples not yet encoded, so that the end can be cut */
};

#define SAMPLES_MAX (INT64_C(3600) * CV_SOUND_RATE * CV_MEDIA_HOURS_MAX)

struct cv_sound_encoder {
    struct cv_sound_encoder_params params;
    AVCodecContext *codec;
    SwrContext *resampler; /* NULL until the first sound, and after a change of format */
    AVAudioFifo *fifo;     /* samples [encoded, position) */
    AVFrame *frame;
    uint8_t *scratch[CHANNELS];
    int scratch_samples;
    int64_t position;      /* samples written so far, silence included */
    int64_t encoded;       /* samples that went to the codec */
    int64_t skip;          /* samples still to be dropped */
    int64_t input_us;      /* when the continuous sound in the resampler started … */
    int64_t input_samples; /* … and how many of its samples have been sent */
    int rate, format;
    AVChannelLayout layout;
    bool is_muted; /* sound of this format cannot be resampled */
    bool finished;
};

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
        encoder->fifo = av_audio_fifo_alloc(AV_SAMPLE_FMT_FLTP, CHANNELS, SILENCE_CHUNK);
    }
    CV_TRY_MEMORY(encoder && encoder->codec && encoder->frame && encoder->fifo, error,
                  "a sound encoder");
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
    *ret_encoder = cv_take(encoder);
    return 0;
}

void cv_sound_encoder_free(struct cv_sound_encoder *encoder)
{
    if (encoder) {
        avcodec_free_context(&encoder->codec);
        swr_free(&encoder->resampler);
        av_audio_fifo_free(encoder->fifo);
        av_frame_free(&encoder->frame);
        av_freep(&encoder->scratch[0]);
        av_channel_layout_uninit(&encoder->layout);
        free(encoder);
    }
}

const AVCodecContext *cv_sound_encoder_codec(const struct cv_sound_encoder *encoder)
{
    return encoder->codec;
}

static int64_t to_samples(const struct cv_sound_encoder *encoder, int64_t time_us)
{
    return av_rescale(time_us - encoder->params.origin_us, CV_SOUND_RATE, AV_TIME_BASE);
}

int64_t cv_sound_encoder_end_us(const struct cv_sound_encoder *encoder)
{
    return encoder->params.origin_us + av_rescale(encoder->position, AV_TIME_BASE, CV_SOUND_RATE);
}

/* ---- input ----------------------------------------------------------------------------------- */

static int reserve(struct cv_sound_encoder *encoder, int samples, struct cv_error *error)
{
    if (samples <= encoder->scratch_samples) {
        return 0;
    }
    av_freep(&encoder->scratch[0]);
    encoder->scratch_samples = 0;
    CV_TRY_MEMORY(
        av_samples_alloc(encoder->scratch, NULL, CHANNELS, samples, AV_SAMPLE_FMT_FLTP, 0) >= 0,
        error, "sound");
    encoder->scratch_samples = samples;
    return 0;
}

/* Appends the first `samples` of the scratch buffers to the sound written so far. */
static int append(struct cv_sound_encoder *encoder, int samples, struct cv_error *error)
{
    int64_t skipped = encoder->skip < samples ? encoder->skip : samples;
    encoder->skip -= skipped;
    void *planes[CHANNELS];
    for (int i = 0; i < CHANNELS; i++) {
        planes[i] = (float *)(void *)encoder->scratch[i] + skipped;
    }
    int count = samples - (int)skipped;
    if (encoder->position + count > SAMPLES_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the sound goes on for more than %d hours",
                       CV_MEDIA_HOURS_MAX);
    }
    if (count > 0 && av_audio_fifo_write(encoder->fifo, planes, count) < count) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for sound");
    }
    encoder->position += count;
    return 0;
}

static int append_silence(struct cv_sound_encoder *encoder, int64_t samples, struct cv_error *error)
{
    CV_TRY(reserve(encoder, SILENCE_CHUNK, error));
    int64_t undrained = 0;
    while (samples > 0) {
        int count = samples < SILENCE_CHUNK ? (int)samples : SILENCE_CHUNK;
        (void)av_samples_set_silence(encoder->scratch, 0, count, CHANNELS, AV_SAMPLE_FMT_FLTP);
        CV_TRY(append(encoder, count, error));
        samples -= count;
        undrained += count;
        if (undrained >= SILENCE_STEP) {
            undrained = 0;
            CV_TRY(cv_cancel_level(encoder->params.cancel) >= CV_CANCEL_ABORT
                       ? cv_fail(error, CV_ERROR_CANCELED, "stopped while filling up with silence")
                       : encoder->params.drain(encoder->params.opaque, error));
            CV_TRY(reserve(encoder, SILENCE_CHUNK, error));
        }
    }
    return 0;
}

/* Resamples `samples`; NULL: takes out what the resampler still holds. */
static int resample(struct cv_sound_encoder *encoder, const AVFrame *samples,
                    struct cv_error *error)
{
    int count = swr_get_out_samples(encoder->resampler, samples ? samples->nb_samples : 0);
    CV_TRY(count < 0 ? 0 : reserve(encoder, count + 1, error));
    count = swr_convert(encoder->resampler, encoder->scratch, encoder->scratch_samples,
                        samples ? (const uint8_t **)samples->extended_data : NULL,
                        samples ? samples->nb_samples : 0);
    if (count < 0) {
        return cv_fail_av(error, count, CV_ERROR_DECODE, "cannot resample the sound");
    }
    return append(encoder, count, error);
}

static int drain_resampler(struct cv_sound_encoder *encoder, struct cv_error *error)
{
    int result = encoder->resampler ? resample(encoder, NULL, error) : 0;
    swr_free(&encoder->resampler);
    return result;
}

/* Creates a resampler for sound of `layout`. `first_two`: only the first two channels are used. */
static int try_resampler(struct cv_sound_encoder *encoder, const AVFrame *samples,
                         AVChannelLayout *layout, bool first_two)
{
    static const int map[CHANNELS] = {0, 1};
    AVChannelLayout used = {0};
    swr_free(&encoder->resampler);
    int result =
        swr_alloc_set_opts2(&encoder->resampler, &encoder->codec->ch_layout, AV_SAMPLE_FMT_FLTP,
                            CV_SOUND_RATE, layout, samples->format, samples->sample_rate, 0, NULL);
    if (result >= 0 && first_two) {
        av_channel_layout_default(&used, layout->nb_channels < CHANNELS ? 1 : CHANNELS);
        result = av_opt_set_chlayout(encoder->resampler, "used_chlayout", &used, 0);
        result = result < 0 ? result : swr_set_channel_mapping(encoder->resampler, map);
    }
    return result < 0 ? result : swr_init(encoder->resampler);
}

/* Opens the resampler. Sound that cannot be resampled becomes silence, because the pictures are
 * still useful. */
static int open_resampler(struct cv_sound_encoder *encoder, const AVFrame *samples,
                          struct cv_error *error)
{
    AVChannelLayout layout = {0};
    int result = 0;
    if (samples->ch_layout.order == AV_CHANNEL_ORDER_UNSPEC) {
        av_channel_layout_default(&layout, samples->ch_layout.nb_channels);
    } else {
        result = av_channel_layout_copy(&layout, &samples->ch_layout);
    }
    if (result >= 0) {
        result = try_resampler(encoder, samples, &layout, false);
        result = result < 0 ? try_resampler(encoder, samples, &layout, true) : result;
        encoder->is_muted = result < 0 && result != AVERROR(ENOMEM);
    }
    av_channel_layout_uninit(&layout);
    av_channel_layout_uninit(&encoder->layout);
    if (encoder->is_muted) {
        swr_free(&encoder->resampler);
        cv_log(CV_LOG_WARN, "sound with %d channels at %d Hz cannot be resampled and is left out",
               samples->ch_layout.nb_channels, samples->sample_rate);
        result = 0;
    }
    result = result < 0 ? result : av_channel_layout_copy(&encoder->layout, &samples->ch_layout);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_DECODE, "cannot resample the sound");
    }
    encoder->rate = samples->sample_rate;
    encoder->format = samples->format;
    return 0;
}

static int64_t input_end_us(const struct cv_sound_encoder *encoder)
{
    return encoder->input_us + av_rescale(encoder->input_samples, AV_TIME_BASE, encoder->rate);
}

static bool is_same_kind(const struct cv_sound_encoder *encoder, const AVFrame *samples)
{
    return (encoder->resampler || encoder->is_muted) && samples->sample_rate == encoder->rate &&
           samples->format == encoder->format &&
           av_channel_layout_compare(&samples->ch_layout, &encoder->layout) == 0;
}

static bool follows(const struct cv_sound_encoder *encoder, const AVFrame *samples, int64_t pts_us)
{
    return is_same_kind(encoder, samples) && llabs(pts_us - input_end_us(encoder)) < JITTER_US;
}

int cv_sound_encoder_write(struct cv_sound_encoder *encoder, const struct cv_sound *sound,
                           struct cv_error *error)
{
    const AVFrame *samples = sound->samples;
    int64_t pts_us = sound->pts_us;
    if (encoder->is_muted && is_same_kind(encoder, samples)) {
        return 0;
    }
    encoder->is_muted = false;
    if (pts_us == AV_NOPTS_VALUE) {
        pts_us = encoder->resampler ? input_end_us(encoder) : cv_sound_encoder_end_us(encoder);
    }
    int result = 0;
    if (!follows(encoder, samples, pts_us)) {
        result = drain_resampler(encoder, error);
        int64_t target = to_samples(encoder, pts_us);
        if (result == 0 && target > encoder->position) {
            encoder->skip = 0;
            result = append_silence(encoder, target - encoder->position, error);
        }
        encoder->skip = encoder->position - target;
        result = result ? result : open_resampler(encoder, samples, error);
        encoder->input_us = pts_us;
        encoder->input_samples = 0;
    }
    if (result != 0 || encoder->is_muted) {
        return result;
    }
    encoder->input_samples += samples->nb_samples;
    return resample(encoder, samples, error);
}

int cv_sound_encoder_pad(struct cv_sound_encoder *encoder, int64_t time_us, struct cv_error *error)
{
    int64_t target = to_samples(encoder, time_us);
    if (target <= encoder->position) {
        return 0;
    }
    CV_TRY(drain_resampler(encoder, error));
    if (target <= encoder->position) {
        return 0;
    }
    encoder->skip = 0;
    return append_silence(encoder, target - encoder->position, error);
}

int cv_sound_encoder_finish(struct cv_sound_encoder *encoder, int64_t time_us,
                            struct cv_error *error)
{
    int result = drain_resampler(encoder, error);
    result = result ? result : cv_sound_encoder_pad(encoder, time_us, error);
    int64_t target = to_samples(encoder, time_us);
    if (target < encoder->position) {
        encoder->position = target > encoder->encoded ? target : encoder->encoded;
    }
    encoder->finished = true;
    return result;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Fills an encoder's frame: as planes, or with the channels interleaved. */
static int read_samples(struct cv_sound_encoder *encoder, AVFrame *frame)
{
    int samples = frame->nb_samples;
    if (frame->format == AV_SAMPLE_FMT_FLTP) {
        return av_audio_fifo_read(encoder->fifo, (void **)frame->data, samples);
    }
    struct cv_error ignored;
    if (reserve(encoder, samples, &ignored) != 0) {
        return AVERROR(ENOMEM);
    }
    int count = av_audio_fifo_read(encoder->fifo, (void **)encoder->scratch, samples);
    float *target = (float *)(void *)frame->data[0];
    for (int i = 0; i < count; i++) {
        for (int channel = 0; channel < CHANNELS; channel++) {
            *target++ = ((const float *)(const void *)encoder->scratch[channel])[i];
        }
    }
    return count;
}

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
    if (result >= 0 && read_samples(encoder, frame) < samples) {
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
    int64_t waiting = encoder->position - encoder->encoded;
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
