#include "workers/clip_generate/follow.h"

#include <math.h>
#include <string.h>

enum { SIDE_MAX = 8192 /* pixels of a line's picture */ };

/* Comparisons of a place, from the cheapest on: samples, and the correlation below which it is another place. A line on plain
 * ground has 0.9 and more, in a picture 0.6 to 0.9; other lines at most 0.55. Few samples are off by their root. */
static const struct {
    int samples;
    double alike;
} stages[] = {{40, 0.4}, {200, 0.45}, {3000, 0.68}};

#define SPREAD_MIN 2.0 /* standard deviation in levels: less is a plain place */
#define SHOWN_MIN 0.6  /* the part of a line that has to be inside of the picture */

void clip_look_deinit(struct clip_look *look)
{
    free(look->ink);
    look->ink = NULL;
}

/* Takes the levels of a decoded picture of one byte a pixel, or of grey. */
static int take_ink(const AVFrame *picture, struct clip_look *look, struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *grey = NULL;
    struct SwsContext *cache = NULL;
    int result = cv_scale_picture(picture, picture->width, picture->height, AV_PIX_FMT_GRAY8, true,
                                  &cache, &grey, error);
    sws_freeContext(cache);
    CV_TRY(result);
    size_t width = (size_t)grey->width;
    look->ink = malloc(width * (size_t)grey->height);
    CV_TRY_MEMORY(look->ink, error, "the picture of a line");
    for (int y = 0; y < grey->height; y++) {
        memcpy(look->ink + (size_t)y * width, grey->data[0] + (ptrdiff_t)y * grey->linesize[0],
               width);
    }
    look->width = grey->width;
    look->height = grey->height;
    return 0;
}

int clip_look_read(const void *data, size_t size, struct clip_look *ret_look,
                   struct cv_error *error)
{
    cv_auto(cv_av_packet_free) AVPacket *packet = av_packet_alloc();
    cv_auto(cv_av_frame_free) AVFrame *picture = av_frame_alloc();
    cv_auto(cv_av_codec_free) AVCodecContext *decoder =
        avcodec_alloc_context3(avcodec_find_decoder(AV_CODEC_ID_PNG));
    *ret_look = (struct clip_look){0};
    CV_TRY_MEMORY(packet && picture && decoder && av_new_packet(packet, (int)size) >= 0, error,
                  "the picture of a line");
    memcpy(packet->data, data, size);
    decoder->max_pixels = (int64_t)SIDE_MAX * SIDE_MAX / 16;
    decoder->thread_count = 1;
    bool is_read = avcodec_open2(decoder, NULL, NULL) >= 0 &&
                   avcodec_send_packet(decoder, packet) >= 0 &&
                   avcodec_receive_frame(decoder, picture) >= 0;
    return is_read ? take_ink(picture, ret_look, error) : 0;
}

/* The correlation of the line's picture with a place, without regard to which of ink and paper is
 * the brighter one; 0 where less than SHOWN_MIN of it is inside of the picture, or all is plain. */
static double likeness(const struct clip_look *look, const struct clip_luma *luma, int x, int y,
                       int samples)
{
    int left = cv_max(0, -x), right = cv_min(look->width, luma->width - x);
    int top = cv_max(0, -y), bottom = cv_min(look->height, luma->height - y);
    int step = 1 + look->width * look->height / samples;
    int64_t n = 0, t = 0, tt = 0, f = 0, ff = 0, tf = 0;
    if (right <= left || bottom <= top ||
        (right - left) * (bottom - top) < SHOWN_MIN * look->width * look->height) {
        return 0;
    }
    for (int row = top; row < bottom; row++) {
        const uint8_t *ink = look->ink + (size_t)row * (size_t)look->width;
        const uint8_t *shown = luma->data + (ptrdiff_t)(y + row) * luma->line_size + x;
        for (int column = left + row * 7 % step; column < right; column += step) {
            int32_t a = ink[column], b = shown[column];
            n++;
            t += a;
            f += b;
            tt += a * a;
            ff += b * b;
            tf += a * b;
        }
    }
    double spread = (double)(n * ff - f * f), own = (double)(n * tt - t * t);
    if (own <= 0 || spread < SPREAD_MIN * SPREAD_MIN * (double)n * (double)n) {
        return 0;
    }
    return fabs((double)(n * tf - t * f)) / sqrt(own * spread);
}

/* How alike a place is; 0: it is another one. */
static double compare(const struct clip_look *look, const struct clip_luma *luma, int x, int y)
{
    double alike = 0;
    for (size_t i = 0; i < CV_COUNT(stages); i++) {
        alike = likeness(look, luma, x, y, stages[i].samples);
        if (alike < stages[i].alike) {
            return 0;
        }
    }
    return alike;
}

size_t clip_look_find(const struct clip_look *look, const struct clip_luma *luma,
                      const struct clip_window *window,
                      struct clip_place ret_places[CLIP_PLACES_MAX])
{
    size_t count = 0;
    double best = 0;
    for (int y = window->top; y <= window->bottom; y++) {
        for (int x = window->left; x <= window->right; x++) {
            double alike = compare(look, luma, x, y);
            bool is_same = count > 0 && y - ret_places[count - 1].y < look->height / 2;
            if (alike <= 0 || (is_same && alike <= best)) {
                continue;
            }
            best = alike;
            count += !is_same && count < CLIP_PLACES_MAX;
            ret_places[count - 1] = (struct clip_place){x, y};
        }
    }
    return count;
}
