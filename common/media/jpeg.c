#include "common/media/averror.h"
#include "common/media/cleanup.h"
#include "common/media/scale.h"
#include "common/media/tone.h"

#include <libavutil/pixdesc.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    QUANTISER_BEST = 1,
    QUANTISER_WORST = 31,
    FIXED_BITS = 12,
};

/* What the usual 1…100 scale of JPEG does to its tables (ITU-T T.81 annex K scaled by s: s = 1 at
 * 50, 0.2 at 90), in quantisers of FFmpeg's encoder, whose own table is about 17 times finer. */
static int quantiser(int quality)
{
    quality = quality < 1 ? 1 : quality > 100 ? 100 : quality;
    double scale = quality < 50 ? 50.0 / quality : 2.0 - quality / 50.0;
    int value = (int)(17.0 * scale + 0.5);
    if (value < QUANTISER_BEST) {
        return QUANTISER_BEST;
    }
    return value > QUANTISER_WORST ? QUANTISER_WORST : value;
}

/* JFIF pictures are full range with the colour matrix of BT.601. From another matrix: its
 * luma coefficients red and blue, from which the 3×3 change of basis follows. */
struct to_jfif {
    int luma_scale, luma_offset;
    int y_cb, y_cr, cb_cb, cb_cr, cr_cb, cr_cr;
};

static void luma_coefficients(enum AVColorSpace space, double *red, double *blue)
{
    switch (space) {
    case AVCOL_SPC_BT709:
        *red = 0.2126, *blue = 0.0722;
        break;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
        *red = 0.2627, *blue = 0.0593;
        break;
    case AVCOL_SPC_SMPTE240M:
        *red = 0.212, *blue = 0.087;
        break;
    default:
        *red = 0.299, *blue = 0.114;
        break;
    }
}

static int fixed(double value)
{
    return (int)(value * (1 << FIXED_BITS) + (value < 0 ? -0.5 : 0.5));
}

static struct to_jfif conversion(const AVFrame *picture)
{
    double red, blue, kr = 0.299, kb = 0.114;
    luma_coefficients(picture->colorspace, &red, &blue);
    bool full = cv_is_full_range(picture);
    double luma = full ? 1.0 : 255.0 / 219.0;
    double chroma = full ? 1.0 : 255.0 / 224.0;

    /* R = Y + rv·Cr, B = Y + bu·Cb, G = Y + gu·Cb + gv·Cr of the source, weighed anew. */
    double rv = 2 * (1 - red), bu = 2 * (1 - blue), green = 1 - red - blue;
    double gu = -blue * bu / green, gv = -red * rv / green;
    double y_cb = kb * bu + (1 - kr - kb) * gu, y_cr = kr * rv + (1 - kr - kb) * gv;
    return (struct to_jfif){
        .luma_scale = fixed(luma),
        .luma_offset = full ? 0 : 16,
        .y_cb = fixed(y_cb * chroma),
        .y_cr = fixed(y_cr * chroma),
        .cb_cb = fixed((bu - y_cb) / (2 * (1 - kb)) * chroma),
        .cb_cr = fixed(-y_cr / (2 * (1 - kb)) * chroma),
        .cr_cb = fixed(-y_cb / (2 * (1 - kr)) * chroma),
        .cr_cr = fixed((rv - y_cr) / (2 * (1 - kr)) * chroma),
    };
}

static uint8_t clip(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

#if defined(__SSE2__)
enum { LANES = 8 };

/* 8 bytes as words, less `offset`. */
static __m128i load_words(const uint8_t *source, int offset)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)source);
    return _mm_sub_epi16(_mm_unpacklo_epi8(bytes, _mm_setzero_si128()),
                         _mm_set1_epi16((short)offset));
}

/* The two factors of one pair of words. */
static __m128i factors(int first, int second)
{
    return _mm_unpacklo_epi16(_mm_set1_epi16((short)first), _mm_set1_epi16((short)second));
}

/* Words (p·f1 + q·f2 + r·f3 + half) >> FIXED_BITS, where f12 and f3h are pairs of factors. */
static __m128i weigh(__m128i p, __m128i q, __m128i r, __m128i f12, __m128i f3h)
{
    __m128i one = _mm_set1_epi16(1);
    __m128i low = _mm_add_epi32(_mm_madd_epi16(_mm_unpacklo_epi16(p, q), f12),
                                _mm_madd_epi16(_mm_unpacklo_epi16(r, one), f3h));
    __m128i high = _mm_add_epi32(_mm_madd_epi16(_mm_unpackhi_epi16(p, q), f12),
                                 _mm_madd_epi16(_mm_unpackhi_epi16(r, one), f3h));
    return _mm_packs_epi32(_mm_srai_epi32(low, FIXED_BITS), _mm_srai_epi32(high, FIXED_BITS));
}

static void store_clipped(uint8_t *target, __m128i words)
{
    _mm_storel_epi64((__m128i *)target, _mm_packus_epi16(words, words));
}

/* The same sums as the plain loop below, eight pixels at a time; returns how many pixels it did.
 * Every factor is far below 8, so that it fits a word. */
static int convert_lanes(const struct to_jfif *c, const uint8_t *y, const uint8_t *cb,
                         const uint8_t *cr, uint8_t *out_y, uint8_t *out_cb, uint8_t *out_cr,
                         int width)
{
    const int half = 1 << (FIXED_BITS - 1);
    const __m128i y_12 = factors(c->luma_scale, c->y_cb), y_3h = factors(c->y_cr, half);
    const __m128i cb_12 = factors(0, c->cb_cb), cb_3h = factors(c->cb_cr, half);
    const __m128i cr_12 = factors(0, c->cr_cb), cr_3h = factors(c->cr_cr, half);
    const __m128i middle = _mm_set1_epi16(128);
    int x = 0;
    for (; x + LANES <= width; x += LANES) {
        __m128i luma = load_words(y + x, c->luma_offset);
        __m128i blue = load_words(cb + x, 128);
        __m128i red = load_words(cr + x, 128);
        store_clipped(out_y + x, weigh(luma, blue, red, y_12, y_3h));
        store_clipped(out_cb + x, _mm_add_epi16(weigh(luma, blue, red, cb_12, cb_3h), middle));
        store_clipped(out_cr + x, _mm_add_epi16(weigh(luma, blue, red, cr_12, cr_3h), middle));
    }
    return x;
}
#endif

static void convert_row(const struct to_jfif *c, const uint8_t *restrict y,
                        const uint8_t *restrict cb, const uint8_t *restrict cr,
                        uint8_t *restrict out_y, uint8_t *restrict out_cb, uint8_t *restrict out_cr,
                        int width)
{
    const struct to_jfif k = *c;
    const int half = 1 << (FIXED_BITS - 1);
    int x = 0;
#if defined(__SSE2__)
    x = convert_lanes(c, y, cb, cr, out_y, out_cb, out_cr, width);
#endif
    for (; x < width; x++) {
        int luma = y[x] - k.luma_offset, blue = cb[x] - 128, red = cr[x] - 128;
        out_y[x] = clip((k.luma_scale * luma + k.y_cb * blue + k.y_cr * red + half) >> FIXED_BITS);
        out_cb[x] = clip(((k.cb_cb * blue + k.cb_cr * red + half) >> FIXED_BITS) + 128);
        out_cr[x] = clip(((k.cr_cb * blue + k.cr_cr * red + half) >> FIXED_BITS) + 128);
    }
}

/* Chroma of 4:2:0 is spread by doubling: cheap, and exact for what came from 4:2:0. */
static void spread_row(const uint8_t *restrict source, uint8_t *restrict target, int width)
{
    for (int x = 0; x < width / 2; x++) {
        target[2 * x] = target[2 * x + 1] = source[x];
    }
    if (width % 2 != 0) {
        target[width - 1] = source[width / 2];
    }
}

static int to_jfif(const AVFrame *picture, AVFrame **ret_frame, struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *frame = av_frame_alloc();
    size_t width = (size_t)picture->width;
    cv_auto_free uint8_t *rows = malloc(2 * width);
    if (frame) {
        frame->width = picture->width;
        frame->height = picture->height;
        frame->format = AV_PIX_FMT_YUVJ444P;
        frame->color_range = AVCOL_RANGE_JPEG;
    }
    if (!frame || !rows || av_frame_get_buffer(frame, 0) < 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
    struct to_jfif c = conversion(picture);
    bool halved = cv_plain_format(picture->format) == AV_PIX_FMT_YUV420P;
    for (int y = 0; y < picture->height; y++) {
        const uint8_t *plane[3];
        uint8_t *out[3];
        for (int i = 0; i < 3; i++) {
            int line = i > 0 && halved ? y / 2 : y;
            plane[i] = picture->data[i] + (ptrdiff_t)line * picture->linesize[i];
            out[i] = frame->data[i] + (ptrdiff_t)y * frame->linesize[i];
        }
        if (halved) {
            spread_row(plane[1], rows, picture->width);
            spread_row(plane[2], rows + width, picture->width);
            plane[1] = rows;
            plane[2] = rows + width;
        }
        convert_row(&c, plane[0], plane[1], plane[2], out[0], out[1], out[2], picture->width);
    }
    *ret_frame = cv_take(frame);
    return 0;
}

/* The picture as full-range BT.601 4:4:4, scaled to fit. */
static int prepare(const AVFrame *picture, int max_side, AVFrame **ret_frame,
                   struct cv_error *error)
{
    int width = picture->width, height = picture->height;
    int longest = width > height ? width : height;
    if (max_side > 0 && longest > max_side) {
        width = (int)((int64_t)width * max_side / longest);
        height = (int)((int64_t)height * max_side / longest);
        width = width < 1 ? 1 : width;
        height = height < 1 ? 1 : height;
    }
    enum AVPixelFormat format = cv_plain_format(picture->format);
    bool same_size = width == picture->width && height == picture->height;
    if (same_size && (format == AV_PIX_FMT_YUV420P || format == AV_PIX_FMT_YUV444P)) {
        return to_jfif(picture, ret_frame, error);
    }
    cv_auto(cv_av_frame_free) AVFrame *scaled = NULL;
    cv_auto(sws_freeContext) struct SwsContext *cache = NULL;
    int result = cv_scale_picture(picture, width, height, AV_PIX_FMT_YUV444P,
                                  cv_is_full_range(picture), &cache, &scaled, error);
    return result ? result : to_jfif(scaled, ret_frame, error);
}

int cv_picture_jpeg(const AVFrame *picture, int quality, int max_side, void **ret_data,
                    size_t *ret_size, struct cv_error *error)
{
    if (picture->width <= 0 || picture->height <= 0) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no picture to write as JPEG");
    }
    cv_auto(cv_av_frame_free) AVFrame *ordinary = NULL;
    cv_auto(cv_av_frame_free) AVFrame *frame = NULL;
    int result = cv_tone_is_high(picture) ? cv_tone_map(picture, &ordinary, error) : 0;
    result = result ? result : prepare(ordinary ? ordinary : picture, max_side, &frame, error);
    if (result != 0) {
        return result;
    }
    const AVCodec *codec = avcodec_find_encoder(AV_CODEC_ID_MJPEG);
    cv_auto(cv_av_codec_free) AVCodecContext *encoder = avcodec_alloc_context3(codec);
    cv_auto(cv_av_packet_free) AVPacket *packet = av_packet_alloc();
    if (!encoder || !packet) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a JPEG");
    }
    encoder->width = frame->width;
    encoder->height = frame->height;
    encoder->pix_fmt = AV_PIX_FMT_YUVJ444P;
    encoder->color_range = AVCOL_RANGE_JPEG;
    encoder->time_base = (AVRational){1, 25};
    encoder->thread_count = 1;
    encoder->flags |= AV_CODEC_FLAG_QSCALE;
    encoder->global_quality = FF_QP2LAMBDA * quantiser(quality);
    encoder->qmin = QUANTISER_BEST;
    frame->quality = encoder->global_quality;
    frame->pts = 0;
    result = avcodec_open2(encoder, codec, NULL);
    result = result < 0 ? result : avcodec_send_frame(encoder, frame);
    result = result < 0 ? result : avcodec_receive_packet(encoder, packet);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write a %d×%d JPEG", frame->width,
                          frame->height);
    }
    void *data = malloc((size_t)packet->size);
    if (!data) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a JPEG");
    }
    (void)memcpy(data, packet->data, (size_t)packet->size);
    *ret_data = data;
    *ret_size = (size_t)packet->size;
    return 0;
}
