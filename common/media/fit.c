#include "common/media/fit.h"

#include "common/media/averror.h"
#include "common/media/cleanup.h"
#include "common/media/scale.h"
#include "common/media/tone.h"

#include <string.h>

enum { SIDE_MIN = 2, BLACK_LUMA = 16, BLACK_CHROMA = 128 };

struct cv_fit {
    int source_width, source_height; /* of the stream, as opened */
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

int cv_fit_new(int width, int height, int max_side, struct cv_fit **ret_fit, struct cv_error *error)
{
    struct cv_fit *fit = calloc(1, sizeof(*fit));
    if (!fit) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for scaling");
    }
    fit->source_width = width;
    fit->source_height = height;
    cv_fit_size(width, height, max_side, &fit->width, &fit->height);
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

int cv_fit_width(const struct cv_fit *fit)
{
    return fit->width;
}

int cv_fit_height(const struct cv_fit *fit)
{
    return fit->height;
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

static int fit_ordinary(struct cv_fit *fit, const AVFrame *picture, AVFrame **ret_frame,
                        struct cv_error *error)
{
    bool usual_size = picture->width == fit->source_width && picture->height == fit->source_height;
    if (usual_size && picture->format == AV_PIX_FMT_YUV420P && !cv_is_full_range(picture) &&
        picture->width - fit->width < 2 && picture->height - fit->height < 2 &&
        picture->width >= fit->width && picture->height >= fit->height) {
        return refer(fit, picture, ret_frame, error);
    }
    int width = fit->width, height = fit->height;
    if (!usual_size) {
        if ((int64_t)picture->width * fit->height > (int64_t)picture->height * fit->width) {
            height = even((int64_t)picture->height * fit->width / picture->width);
        } else {
            width = even((int64_t)picture->width * fit->height / picture->height);
        }
    }
    cv_auto(cv_av_frame_free) AVFrame *scaled = NULL;
    int result = cv_scale_picture(picture, width, height, AV_PIX_FMT_YUV420P, false, &fit->cache,
                                  &scaled, error);
    if (result != 0) {
        return result;
    }
    if (width != fit->width || height != fit->height) {
        return centre(fit, scaled, ret_frame, error);
    }
    *ret_frame = cv_take(scaled);
    return 0;
}

int cv_fit_picture(struct cv_fit *fit, const AVFrame *picture, AVFrame **ret_frame,
                   struct cv_error *error)
{
    if (!cv_tone_is_high(picture)) {
        return fit_ordinary(fit, picture, ret_frame, error);
    }
    cv_auto(cv_av_frame_free) AVFrame *ordinary = NULL;
    int result = cv_tone_map(picture, &ordinary, error);
    return result ? result : fit_ordinary(fit, ordinary, ret_frame, error);
}
