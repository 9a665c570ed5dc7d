#include "common/media/webp.h"

#include "common/media/libav.h"
#include "common/media/scale.h"

#include <libavutil/opt.h>
#include <string.h>

static int open_encoder(const AVFrame *pixels, int quality, AVCodecContext **ret_encoder,
                        struct cv_error *error)
{
    const AVCodec *codec = avcodec_find_encoder_by_name("libwebp");
    if (!codec) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "this FFmpeg has no libwebp");
    }
    cv_auto(cv_av_codec_free) AVCodecContext *encoder = avcodec_alloc_context3(codec);
    CV_TRY_MEMORY(encoder && av_opt_set_double(encoder->priv_data, "quality", quality, 0) >= 0,
                  error, "a WebP");
    encoder->width = pixels->width;
    encoder->height = pixels->height;
    encoder->pix_fmt = pixels->format;
    encoder->time_base = (AVRational){1, 1};
    CV_TRY_AV(avcodec_open2(encoder, codec, NULL), error, CV_ERROR_ENCODE,
              "cannot write a %d×%d WebP", pixels->width, pixels->height);
    *ret_encoder = cv_take(encoder);
    return 0;
}

int cv_picture_webp(const AVFrame *picture, int quality, int max_side, void **ret_data,
                    size_t *ret_size, struct cv_error *error)
{
    int width, height;
    cv_fit_size(picture->width, picture->height, max_side, &width, &height);
    cv_auto(sws_freeContext) struct SwsContext *cache = NULL;
    cv_auto(cv_av_frame_free) AVFrame *pixels = NULL;
    cv_auto(cv_av_codec_free) AVCodecContext *encoder = NULL;
    cv_auto(cv_av_packet_free) AVPacket *packet = av_packet_alloc();
    CV_TRY_MEMORY(packet, error, "a WebP");
    /* WebP has only BT.601's matrix. Given red, green and blue, libwebp converts correctly itself. */
    CV_TRY(
        cv_scale_picture(picture, width, height, AV_PIX_FMT_RGB32, true, &cache, &pixels, error));
    CV_TRY(open_encoder(pixels, quality, &encoder, error));
    int result = avcodec_send_frame(encoder, pixels);
    result = result < 0 ? result : avcodec_receive_packet(encoder, packet);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write a %d×%d WebP", width,
                          height);
    }
    void *data = malloc((size_t)packet->size);
    CV_TRY_MEMORY(data, error, "a WebP");
    memcpy(data, packet->data, (size_t)packet->size);
    *ret_data = data;
    *ret_size = (size_t)packet->size;
    return 0;
}
