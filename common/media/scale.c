#include "common/media/scale.h"

#include "common/media/averror.h"
#include "common/media/cleanup.h"

#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>

enum { STRIDE_ALIGN = 64 };

bool cv_is_full_range(const AVFrame *picture)
{
    switch (picture->format) {
    case AV_PIX_FMT_YUVJ420P:
    case AV_PIX_FMT_YUVJ422P:
    case AV_PIX_FMT_YUVJ444P:
    case AV_PIX_FMT_YUVJ440P:
    case AV_PIX_FMT_YUVJ411P:
        return true;
    default:
        return picture->color_range == AVCOL_RANGE_JPEG;
    }
}

enum AVPixelFormat cv_plain_format(enum AVPixelFormat format)
{
    switch (format) {
    case AV_PIX_FMT_YUVJ420P:
        return AV_PIX_FMT_YUV420P;
    case AV_PIX_FMT_YUVJ422P:
        return AV_PIX_FMT_YUV422P;
    case AV_PIX_FMT_YUVJ444P:
        return AV_PIX_FMT_YUV444P;
    case AV_PIX_FMT_YUVJ440P:
        return AV_PIX_FMT_YUV440P;
    case AV_PIX_FMT_YUVJ411P:
        return AV_PIX_FMT_YUV411P;
    default:
        return format;
    }
}

/* libswscale names a colour matrix by the number that H.264 and AVColorSpace use, too; RGB sources
 * become BT.601, as in JPEG. */
static const int *matrix_of(const AVFrame *picture)
{
    bool unknown =
        picture->colorspace == AVCOL_SPC_UNSPECIFIED || picture->colorspace == AVCOL_SPC_RGB;
    return sws_getCoefficients(unknown ? SWS_CS_DEFAULT : (int)picture->colorspace);
}

struct option {
    const char *name;
    int64_t value;
};

static bool has_options(struct SwsContext *context, const struct option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value;
        if (av_opt_get_int(context, options[i].name, 0, &value) < 0 || value != options[i].value) {
            return false;
        }
    }
    return true;
}

/* sws_getCachedContext knows no ranges, and takes two formats of one size that differ in nothing
 * but their range for the same: such pictures would be copied as they are. */
static struct SwsContext *context_for(struct SwsContext *cached, const struct option *options,
                                      size_t count)
{
    if (cached && has_options(cached, options, count)) {
        return cached;
    }
    sws_freeContext(cached);
    struct SwsContext *context = sws_alloc_context();
    bool good = context != NULL;
    for (size_t i = 0; good && i < count; i++) {
        good = av_opt_set_int(context, options[i].name, options[i].value, 0) >= 0;
    }
    if (!good || sws_init_context(context, NULL, NULL) < 0) {
        sws_freeContext(context);
        return NULL;
    }
    return context;
}

int cv_scale_picture(const AVFrame *picture, int width, int height, enum AVPixelFormat format,
                     bool full_range, struct SwsContext **cache, AVFrame **ret_frame,
                     struct cv_error *error)
{
    const AVPixFmtDescriptor *target = av_pix_fmt_desc_get(format);
    bool same_size = width == picture->width && height == picture->height;
    const struct option options[] = {
        {"srcw", picture->width},
        {"srch", picture->height},
        {"src_format", cv_plain_format(picture->format)},
        {"src_range", cv_is_full_range(picture)},
        {"dstw", width},
        {"dsth", height},
        {"dst_format", format},
        {"dst_range", full_range},
        {"sws_flags", same_size ? SWS_BILINEAR | SWS_ACCURATE_RND : SWS_BICUBIC},
    };
    *cache = context_for(*cache, options, CV_COUNT(options));
    if (!*cache) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA, "cannot convert %s pictures to %s",
                       av_get_pix_fmt_name(picture->format), target->name);
    }
    /* Between two YUV formats the matrix stays what it was; from and to RGB it is the source's. */
    const int *matrix = matrix_of(picture);
    (void)sws_setColorspaceDetails(*cache, matrix, cv_is_full_range(picture), matrix, full_range, 0,
                                   1 << 16, 1 << 16);

    cv_auto(cv_av_frame_free) AVFrame *frame = av_frame_alloc();
    if (!frame) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
    frame->width = width;
    frame->height = height;
    frame->format = format;
    int result = av_frame_get_buffer(frame, STRIDE_ALIGN);
    if (result >= 0) {
        result = sws_scale(*cache, (const uint8_t *const *)picture->data, picture->linesize, 0,
                           picture->height, frame->data, frame->linesize);
    }
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_DECODE, "cannot convert a picture");
    }
    frame->colorspace = picture->colorspace;
    frame->color_primaries = picture->color_primaries;
    frame->color_trc = picture->color_trc;
    frame->color_range = full_range ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    frame->sample_aspect_ratio = picture->sample_aspect_ratio;
    *ret_frame = cv_take(frame);
    return 0;
}
