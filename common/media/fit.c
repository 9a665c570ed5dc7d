#include "common/media/fit.h"

#include "common/media/averror.h"
#include "common/media/cleanup.h"
#include "common/media/scale.h"
#include "common/media/tone.h"

#include <string.h>

enum { SIDE_MIN = 2, BLACK_LUMA = 16, BLACK_CHROMA = 128 };

struct cv_fit {
    int source_width, source_height;
    double aspect; /* of the source's pixels, where they are to become square, else 1 */
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
    if (!fit) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for scaling");
    }
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

static void fill(AVFrame *frame, int plane, int width, int height, uint8_t value)
{
    for (int y = 0; y < height; y++) {
        (void)memset(frame->data[plane] + (ptrdiff_t)y * frame->linesize[plane], value,
                     (size_t)width);
    }
}

/* Puts `picture` (8-bit 4:2:0, even, no larger) in the middle of black. */
static int centre(const struct cv_fit *fit, const AVFrame *picture, AVFrame **ret_frame,
                  struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *frame = av_frame_alloc();
    if (frame) {
        frame->width = fit->width;
        frame->height = fit->height;
        frame->format = AV_PIX_FMT_YUV420P;
    }
    if (!frame || av_frame_get_buffer(frame, 0) < 0 || av_frame_copy_props(frame, picture) < 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
    fill(frame, 0, fit->width, fit->height, BLACK_LUMA);
    fill(frame, 1, fit->width / 2, fit->height / 2, BLACK_CHROMA);
    fill(frame, 2, fit->width / 2, fit->height / 2, BLACK_CHROMA);
    int left = (fit->width - picture->width) / 4 * 2, top = (fit->height - picture->height) / 4 * 2;
    for (int plane = 0; plane < 3; plane++) {
        int half = plane > 0;
        for (int y = 0; y < picture->height >> half; y++) {
            (void)memcpy(frame->data[plane] +
                             (ptrdiff_t)((top >> half) + y) * frame->linesize[plane] +
                             (left >> half),
                         picture->data[plane] + (ptrdiff_t)y * picture->linesize[plane],
                         (size_t)(picture->width >> half));
        }
    }
    *ret_frame = cv_take(frame);
    return 0;
}

static int refer(const struct cv_fit *fit, const AVFrame *picture, AVFrame **ret_frame,
                 struct cv_error *error)
{
    AVFrame *frame = av_frame_clone(picture);
    if (!frame) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
    frame->width = fit->width;
    frame->height = fit->height;
    *ret_frame = frame;
    return 0;
}

/* The size within the rendition that a picture of another shape gets. */
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
    int result = scale(fit, picture, width, height, &scaled, error);
    if (result != 0) {
        return result;
    }
    if (width != fit->width || height != fit->height) {
        return centre(fit, scaled, ret_frame, error);
    }
    *ret_frame = cv_take(scaled);
    return 0;
}
