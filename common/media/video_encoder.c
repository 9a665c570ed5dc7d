#include "common/media/video_encoder.h"

#include "common/media/libav.h"

#include <libavutil/opt.h>

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
    if (params->forced_keys) {
        /* No B-frames: with reordered pictures, decoding starts before the first picture is shown,
         * and players that use the first decoding time (hls.js) show everything late by that, two
         * frames as measured. If the time stamps are shifted to hide it, players fill the holes
         * wrongly. */
        encoder->max_b_frames = 0;
    }
    if (params->max_rate > 0) {
        encoder->rc_max_rate = params->max_rate;
        encoder->rc_buffer_size = params->max_rate * BUFFER_S;
    }
    if (params->global_header) {
        encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    set_colours(encoder, params->first);
    int result = avcodec_open2(encoder, codec, &options);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode %d×%d H.264",
                          params->width, params->height);
    }
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
    int result = avcodec_open2(encoder, codec, &dictionary);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode %d×%d with %s",
                          params->width, params->height, name);
    }
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
