#include "common/media/hardware.h"

#include "common/media/libav.h"
#include "common/media/scale.h"

#include <fcntl.h>
#include <libavutil/hwcontext.h>
#include <libavutil/pixdesc.h>
#include <string.h>

struct cv_hardware {
    char name[CV_DEVICE_SIZE];
    const AVCodec *codec;
    AVBufferRef *device;
    enum AVPixelFormat format; /* of pictures in the device's memory */
    enum AVPixelFormat plain;  /* of the pictures of FFmpeg's own decoder */
    char refusal[128];
    AVFrame *copy;
    struct SwsContext *scaler;
};

/* Whether the codec defines every sample of its pictures. Others, with a floating-point transform,
 * give slightly different pictures on every device. */
static bool is_exact(enum AVCodecID codec_id)
{
    switch (codec_id) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1:
        return true;
    default:
        return false;
    }
}

/* Finds the decoder that uses such devices: not always FFmpeg's first choice for the codec. */
static int find_codec(struct cv_hardware *hardware, enum AVHWDeviceType type,
                      enum AVCodecID codec_id, struct cv_error *error)
{
    void *position = NULL;
    if (!is_exact(codec_id)) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA, "its pictures would not be exact for %s",
                       avcodec_get_name(codec_id));
    }
    for (const AVCodec *codec; (codec = av_codec_iterate(&position));) {
        const AVCodecHWConfig *config;
        bool fits = codec->id == codec_id && av_codec_is_decoder(codec);
        for (int i = 0; fits && (config = avcodec_get_hw_config(codec, i)); i++) {
            if (config->device_type == type &&
                (config->methods & AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX)) {
                hardware->codec = codec;
                hardware->format = config->pix_fmt;
                return 0;
            }
        }
    }
    return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA, "FFmpeg does not decode %s on such a device",
                   avcodec_get_name(codec_id));
}

/* FFmpeg's error does not say why a node cannot be opened. */
static int check_node(const char *node, struct cv_error *error)
{
    cv_auto_fd int fd = open(node, O_RDWR | O_CLOEXEC);
    return fd < 0 ? cv_fail_errno(error, errno, "cannot open %s", node) : 0;
}

static int open_device(struct cv_hardware *hardware, enum AVHWDeviceType type, const char *which,
                       struct cv_error *error)
{
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    if (type == AV_HWDEVICE_TYPE_VAAPI) {
        CV_TRY(check_node(which, error));
        CV_TRY_MEMORY(av_dict_set(&options, "connection_type", "drm", 0) >= 0, error, "a device");
    }
    int result = av_hwdevice_ctx_create(&hardware->device, type, which, options, 0);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_UNSUPPORTED_MEDIA,
                                   "FFmpeg cannot use the device (its reason is in the log at "
                                   "level debug)")
                      : 0;
}

int cv_hardware_new(const char *device, enum AVCodecID codec_id, struct cv_hardware **ret_hardware,
                    struct cv_error *error)
{
    cv_auto(cv_hardware_free) struct cv_hardware *hardware = calloc(1, sizeof(*hardware));
    CV_TRY_MEMORY(hardware && (hardware->copy = av_frame_alloc()), error, "a device");
    char type_name[16];
    size_t length = strcspn(device, ":");
    (void)snprintf(type_name, sizeof(type_name), "%.*s", (int)length, device);
    (void)snprintf(hardware->name, sizeof(hardware->name), "%s", device);
    enum AVHWDeviceType type = av_hwdevice_find_type_by_name(type_name);
    cv_media_capture_log();
    CV_TRY(find_codec(hardware, type, codec_id, error));
    CV_TRY(open_device(hardware, type, device + length + 1, error));
    *ret_hardware = cv_take(hardware);
    return 0;
}

void cv_hardware_free(struct cv_hardware *hardware)
{
    if (hardware) {
        av_buffer_unref(&hardware->device);
        av_frame_free(&hardware->copy);
        sws_freeContext(hardware->scaler);
        free(hardware);
    }
}

const char *cv_hardware_name(const struct cv_hardware *hardware)
{
    return hardware->name;
}

const AVCodec *cv_hardware_codec(const struct cv_hardware *hardware)
{
    return hardware->codec;
}

const char *cv_hardware_refusal(const struct cv_hardware *hardware)
{
    return hardware->refusal;
}

/* Called by FFmpeg with the formats in which it can decode the stream; again without the device's if
 * the device refused. Only formats are accepted whose samples are the same on every device. */
static enum AVPixelFormat choose_format(AVCodecContext *context, const enum AVPixelFormat *offered)
{
    struct cv_hardware *hardware = context->opaque;
    hardware->plain = context->sw_pix_fmt;
    enum AVPixelFormat format = cv_plain_format(hardware->plain);
    if (format != AV_PIX_FMT_YUV420P && format != AV_PIX_FMT_YUV420P10) {
        (void)snprintf(hardware->refusal, sizeof(hardware->refusal),
                       "its pictures would not be exact for a video in %s",
                       av_get_pix_fmt_name(hardware->plain));
        return AV_PIX_FMT_NONE;
    }
    for (; *offered != AV_PIX_FMT_NONE; offered++) {
        if (*offered == hardware->format) {
            return hardware->format;
        }
    }
    const char *profile = avcodec_profile_name(context->codec_id, context->profile);
    (void)snprintf(hardware->refusal, sizeof(hardware->refusal),
                   "the device does not decode %s (profile %s, %d×%d pixels)",
                   avcodec_get_name(context->codec_id), profile ? profile : "unknown",
                   context->width, context->height);
    return AV_PIX_FMT_NONE;
}

int cv_hardware_attach(struct cv_hardware *hardware, AVCodecContext *context,
                       struct cv_error *error)
{
    context->opaque = hardware;
    context->get_format = choose_format;
    context->hw_device_ctx = av_buffer_ref(hardware->device);
    CV_TRY_MEMORY(context->hw_device_ctx, error, "a device");
    return 0;
}

int cv_hardware_fetch(struct cv_hardware *hardware, AVFrame *picture, struct cv_error *error)
{
    AVFrame *copy = hardware->copy;
    cv_auto(cv_av_frame_free) AVFrame *plain = NULL;
    av_frame_unref(copy);
    CV_TRY_AV(av_hwframe_transfer_data(copy, picture, 0), error, CV_ERROR_IO,
              "a picture cannot be copied");
    if (copy->format != AV_PIX_FMT_NV12 && copy->format != AV_PIX_FMT_P010) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA, "its pictures are in %s",
                       av_get_pix_fmt_name(copy->format));
    }
    copy->color_range = picture->color_range; /* not to be converted */
    CV_TRY(cv_scale_picture(copy, copy->width, copy->height, cv_plain_format(hardware->plain),
                            cv_is_full_range(copy), &hardware->scaler, &plain, error));
    int result = av_frame_copy_props(plain, picture);
    plain->format = hardware->plain;
    av_frame_unref(picture);
    av_frame_move_ref(picture, plain);
    /* FFmpeg has cropped right and bottom edges only. */
    result = result < 0 ? result : av_frame_apply_cropping(picture, AV_FRAME_CROP_UNALIGNED);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_IO, "a picture cannot be copied") : 0;
}
