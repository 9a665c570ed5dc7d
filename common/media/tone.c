#include "common/media/tone.h"

#include "common/media/cleanup.h"
#include "common/media/scale.h"

#include <math.h>
#include <pthread.h>

/* The curve is applied to luma, and chroma follows by the same factor: not a colorimetric
 * conversion, but two table look-ups a pixel, and text and faces come out as people expect. */

enum {
    CODES = 1024, /* of ten bits */
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
                /* Ten bits to eight: two bits more to shift. */
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
    const AVFrame *from = picture;
    cv_auto(cv_av_frame_free) AVFrame *converted = NULL;
    if (picture->format != AV_PIX_FMT_YUV420P10LE || cv_is_full_range(picture)) {
        cv_auto(sws_freeContext) struct SwsContext *cache = NULL;
        int result = cv_scale_picture(picture, picture->width, picture->height,
                                      AV_PIX_FMT_YUV420P10LE, false, &cache, &converted, error);
        if (result != 0) {
            return result;
        }
        from = converted;
    }
    cv_auto(cv_av_frame_free) AVFrame *frame = av_frame_alloc();
    if (frame) {
        frame->width = picture->width;
        frame->height = picture->height;
        frame->format = AV_PIX_FMT_YUV420P;
    }
    if (!frame || av_frame_get_buffer(frame, 0) < 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
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
