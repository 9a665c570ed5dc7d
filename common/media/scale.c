#include "common/media/scale.h"

#include "common/media/libav.h"

#include <assert.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

/* ---- size and format ------------------------------------------------------------------------- */

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

/* Returns the picture's colour matrix. libswscale uses the numbers of H.264 and AVColorSpace; RGB
 * sources become BT.601, as in JPEG. */
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

/* sws_getCachedContext ignores ranges: it would take two formats that differ only in their range
 * for the same and copy pictures unchanged. So the context is configured here. */
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

int cv_picture_new(int width, int height, enum AVPixelFormat format, AVFrame **ret_frame,
                   struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *frame = av_frame_alloc();
    if (frame) {
        frame->width = width;
        frame->height = height;
        frame->format = format;
    }
    CV_TRY_MEMORY(frame && av_frame_get_buffer(frame, 0) >= 0, error, "a picture");
    *ret_frame = cv_take(frame);
    return 0;
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
    /* From one YUV format to another the matrix is not changed; from and to RGB the source's matrix
     * is used. */
    const int *matrix = matrix_of(picture);
    (void)sws_setColorspaceDetails(*cache, matrix, cv_is_full_range(picture), matrix, full_range, 0,
                                   1 << 16, 1 << 16);

    cv_auto(cv_av_frame_free) AVFrame *frame = av_frame_alloc();
    CV_TRY_MEMORY(frame, error, "a picture");
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

bool cv_picture_equals(const AVFrame *one, const AVFrame *other)
{
    if (one->width != other->width || one->height != other->height ||
        one->format != other->format) {
        return false;
    }
    for (int plane = 0; plane < AV_NUM_DATA_POINTERS && one->data[plane]; plane++) {
        if (one->data[plane] == other->data[plane]) {
            continue;
        }
        int bytes = av_image_get_linesize(one->format, one->width, plane);
        bool chroma = plane == 1 || plane == 2;
        int rows = one->height;
        if (chroma && bytes > 0) {
            int vertical = 0, horizontal = 0;
            (void)av_pix_fmt_get_chroma_sub_sample(one->format, &horizontal, &vertical);
            rows = AV_CEIL_RSHIFT(one->height, vertical);
        }
        for (int row = 0; row < rows; row++) {
            if (bytes <= 0 || !other->data[plane] ||
                memcmp(one->data[plane] + (ptrdiff_t)row * one->linesize[plane],
                       other->data[plane] + (ptrdiff_t)row * other->linesize[plane],
                       (size_t)bytes) != 0) {
                return false;
            }
        }
    }
    return true;
}

/* ---- high dynamic range ---------------------------------------------------------------------- */

/* The curve is applied to luma, and chroma is scaled by the same factor. This is no exact
 * colorimetric conversion, but it needs only two table look-ups per pixel, and text and faces look
 * as expected. */

enum {
    CODES = 1024, /* values of ten bits */
    LUMA_BLACK = 64,
    LUMA_RANGE = 876,
    CHROMA_ZERO = 512,
    GAIN_BITS = 12,
    GAIN_MAX = 4 << GAIN_BITS,
};

/* ITU-R BT.2408: reference white, and the peak that most content is graded for. */
static const double white_nits = 203, peak_nits = 1000;
static const double display_gamma = 2.4; /* ITU-R BT.1886 */

struct tone_table {
    uint8_t luma[CODES];
    uint16_t gain[CODES]; /* of chroma, by luma */
};

static struct tone_table pq_table, hlg_table;

/* SMPTE ST 2084: signal to nits. */
static double pq_nits(double signal)
{
    const double m1 = 2610.0 / 16384, m2 = 2523.0 / 4096 * 128;
    const double c1 = 3424.0 / 4096, c2 = 2413.0 / 4096 * 32, c3 = 2392.0 / 4096 * 32;
    double power = pow(signal, 1 / m2);
    return 10000 * pow(fmax(power - c1, 0) / (c2 - c3 * power), 1 / m1);
}

/* ARIB STD-B67 / ITU-R BT.2100: signal to the nits of a screen of 1000, whose system gamma is 1.2. */
static double hlg_nits(double signal)
{
    const double a = 0.17883277, b = 1 - 4 * a, c = 0.5 - a * log(4 * a);
    double light = signal <= 0.5 ? signal * signal / 3 : (exp((signal - c) / a) + b) / 12;
    return 1000 * pow(light, 1.2);
}

/* A Möbius curve: linear up to `knee`, then bent so that the peak becomes 1. */
static double roll_off(double light)
{
    const double knee = 0.5, peak = peak_nits / white_nits;
    if (light <= knee) {
        return light;
    }
    double a = -knee * knee * (peak - 1) / (knee * knee - 2 * knee + peak);
    double b = (knee * knee - 2 * knee * peak + peak) / (peak - 1);
    double bent = (b * b + 2 * b * knee + knee * knee) / (b - a) * (light + a) / (light + b);
    return fmin(bent, 1);
}

static void fill_table(struct tone_table *table, double (*nits)(double))
{
    for (int code = 0; code < CODES; code++) {
        double signal = fmin(fmax((code - LUMA_BLACK) / (double)LUMA_RANGE, 0), 1);
        double shown = pow(roll_off(nits(signal) / white_nits), 1 / display_gamma);
        double gain = signal > 0.01 ? shown / signal : 1;
        table->luma[code] = (uint8_t)lrint(16 + 219 * shown);
        table->gain[code] = (uint16_t)fmin(gain * (1 << GAIN_BITS), GAIN_MAX);
    }
}

static void fill_tables(void)
{
    fill_table(&pq_table, pq_nits);
    fill_table(&hlg_table, hlg_nits);
}

bool cv_tone_is_high(const AVFrame *picture)
{
    return picture->color_trc == AVCOL_TRC_SMPTE2084 ||
           picture->color_trc == AVCOL_TRC_ARIB_STD_B67;
}

static const uint16_t *words(const AVFrame *frame, int plane, int row)
{
    const void *line = frame->data[plane] + (ptrdiff_t)row * frame->linesize[plane];
    return line;
}

static void map_luma(const struct tone_table *table, const AVFrame *from, AVFrame *to)
{
    for (int y = 0; y < from->height; y++) {
        const uint16_t *source = words(from, 0, y);
        uint8_t *target = to->data[0] + (ptrdiff_t)y * to->linesize[0];
        for (int x = 0; x < from->width; x++) {
            target[x] = table->luma[source[x] % CODES];
        }
    }
}

static void map_chroma(const struct tone_table *table, const AVFrame *from, AVFrame *to)
{
    for (int y = 0; y < (from->height + 1) / 2; y++) {
        const uint16_t *luma = words(from, 0, 2 * y);
        for (int plane = 1; plane <= 2; plane++) {
            const uint16_t *source = words(from, plane, y);
            uint8_t *target = to->data[plane] + (ptrdiff_t)y * to->linesize[plane];
            for (int x = 0; x < (from->width + 1) / 2; x++) {
                int gain = table->gain[luma[2 * x] % CODES];
                /* Ten bits become eight, so shift by two more. */
                int value = ((source[x] - CHROMA_ZERO) * gain) >> (GAIN_BITS + 2);
                target[x] = value < -112 ? 16 : value > 112 ? 240 : (uint8_t)(128 + value);
            }
        }
    }
}

int cv_tone_map(const AVFrame *picture, AVFrame **ret_frame, struct cv_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, fill_tables);
    assert(picture);
    const AVFrame *from = picture;
    cv_auto(cv_av_frame_free) AVFrame *converted = NULL;
    if (picture->format != AV_PIX_FMT_YUV420P10LE || cv_is_full_range(picture)) {
        cv_auto(sws_freeContext) struct SwsContext *cache = NULL;
        CV_TRY(cv_scale_picture(picture, picture->width, picture->height, AV_PIX_FMT_YUV420P10LE,
                                false, &cache, &converted, error));
        from = converted;
    }
    cv_auto(cv_av_frame_free) AVFrame *frame = NULL;
    CV_TRY(cv_picture_new(picture->width, picture->height, AV_PIX_FMT_YUV420P, &frame, error));
    const struct tone_table *table =
        picture->color_trc == AVCOL_TRC_ARIB_STD_B67 ? &hlg_table : &pq_table;
    map_luma(table, from, frame);
    map_chroma(table, from, frame);
    frame->colorspace = picture->colorspace;
    frame->color_primaries = picture->color_primaries;
    frame->color_trc = AVCOL_TRC_BT709;
    frame->color_range = AVCOL_RANGE_MPEG;
    frame->chroma_location = picture->chroma_location;
    frame->sample_aspect_ratio = picture->sample_aspect_ratio;
    *ret_frame = cv_take(frame);
    return 0;
}

/* ---- the size and format of a rendition ------------------------------------------------------ */

enum { SIDE_MIN = 2 };

struct cv_fit {
    int source_width, source_height;
    double aspect; /* of the source's pixels if they are to become square, else 1 */
    int width, height;
    struct SwsContext *cache;
};

static int even(int64_t side)
{
    return side < SIDE_MIN ? SIDE_MIN : (int)(side & ~INT64_C(1));
}

void cv_fit_size(int width, int height, int max_side, int *ret_width, int *ret_height)
{
    int longest = width > height ? width : height;
    int64_t fitted_width = width, fitted_height = height;
    if (max_side > 0 && longest > max_side) {
        fitted_width = (int64_t)width * max_side / longest;
        fitted_height = (int64_t)height * max_side / longest;
    }
    *ret_width = even(fitted_width);
    *ret_height = even(fitted_height);
}

int cv_fit_new(const struct cv_fit_params *params, struct cv_fit **ret_fit, struct cv_error *error)
{
    struct cv_fit *fit = calloc(1, sizeof(*fit));
    CV_TRY_MEMORY(fit, error, "scaling");
    fit->source_width = params->source_width;
    fit->source_height = params->source_height;
    fit->aspect = params->aspect.num > 0 && params->aspect.den > 0 ? av_q2d(params->aspect) : 1;
    fit->width = params->width;
    fit->height = params->height;
    *ret_fit = fit;
    return 0;
}

void cv_fit_free(struct cv_fit *fit)
{
    if (fit) {
        sws_freeContext(fit->cache);
        free(fit);
    }
}

/* Copies `picture` (8-bit 4:2:0, even, no larger than the rendition) to the middle of a black
 * frame. */
static int centre(const struct cv_fit *fit, const AVFrame *picture, AVFrame **ret_frame,
                  struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *frame = NULL;
    assert(picture);
    CV_TRY(cv_picture_new(fit->width, fit->height, AV_PIX_FMT_YUV420P, &frame, error));
    CV_TRY_MEMORY(av_frame_copy_props(frame, picture) >= 0, error, "a picture");
    const ptrdiff_t strides[4] = {frame->linesize[0], frame->linesize[1], frame->linesize[2]};
    (void)av_image_fill_black(frame->data, strides, frame->format, AVCOL_RANGE_MPEG, frame->width,
                              frame->height);
    int left = (fit->width - picture->width) / 4 * 2, top = (fit->height - picture->height) / 4 * 2;
    for (int plane = 0; plane < 3; plane++) {
        int half = plane > 0;
        av_image_copy_plane(frame->data[plane] + (ptrdiff_t)(top >> half) * frame->linesize[plane] +
                                (left >> half),
                            frame->linesize[plane], picture->data[plane], picture->linesize[plane],
                            picture->width >> half, picture->height >> half);
    }
    *ret_frame = cv_take(frame);
    return 0;
}

static int refer(const struct cv_fit *fit, const AVFrame *picture, AVFrame **ret_frame,
                 struct cv_error *error)
{
    AVFrame *frame = av_frame_clone(picture);
    CV_TRY_MEMORY(frame, error, "a picture");
    frame->width = fit->width;
    frame->height = fit->height;
    *ret_frame = frame;
    return 0;
}

/* The size at which a picture of another shape is shown within the rendition. */
static void inner_size(const struct cv_fit *fit, const AVFrame *picture, int *ret_width,
                       int *ret_height)
{
    double shape = picture->width * fit->aspect / picture->height;
    *ret_width = fit->width;
    *ret_height = fit->height;
    if (shape * fit->height > fit->width) {
        *ret_height = even((int64_t)(fit->width / shape));
    } else {
        *ret_width = even((int64_t)(fit->height * shape));
    }
}

static int scale(struct cv_fit *fit, const AVFrame *picture, int width, int height,
                 AVFrame **ret_frame, struct cv_error *error)
{
    bool high = cv_tone_is_high(picture);
    cv_auto(cv_av_frame_free) AVFrame *scaled = NULL;
    int result =
        cv_scale_picture(picture, width, height, high ? AV_PIX_FMT_YUV420P10LE : AV_PIX_FMT_YUV420P,
                         false, &fit->cache, &scaled, error);
    if (result == 0 && high) {
        return cv_tone_map(scaled, ret_frame, error);
    }
    *ret_frame = result ? NULL : cv_take(scaled);
    return result;
}

int cv_fit_picture(struct cv_fit *fit, const AVFrame *picture, AVFrame **ret_frame,
                   struct cv_error *error)
{
    bool usual_size = picture->width == fit->source_width && picture->height == fit->source_height;
    if (usual_size && picture->format == AV_PIX_FMT_YUV420P && !cv_is_full_range(picture) &&
        !cv_tone_is_high(picture) && picture->width - fit->width < 2 &&
        picture->height - fit->height < 2 && picture->width >= fit->width &&
        picture->height >= fit->height) {
        return refer(fit, picture, ret_frame, error);
    }
    int width = fit->width, height = fit->height;
    if (!usual_size) {
        inner_size(fit, picture, &width, &height);
    }
    cv_auto(cv_av_frame_free) AVFrame *scaled = NULL;
    CV_TRY(scale(fit, picture, width, height, &scaled, error));
    if (width != fit->width || height != fit->height) {
        return centre(fit, scaled, ret_frame, error);
    }
    *ret_frame = cv_take(scaled);
    return 0;
}
