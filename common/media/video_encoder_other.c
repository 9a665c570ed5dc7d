#include "common/media/averror.h"
#include "common/media/cleanup.h"
#include "common/media/video_encoder.h"

enum { KEY_DISTANCE = 120, FRAME_RATE_UNKNOWN = 30 };

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
    if (!good) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for an encoder");
    }
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

/* Constant quality at the speed of a live encode; screen content is what this project records. */
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
