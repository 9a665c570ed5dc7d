#include "common/media/jpeg_colour.h"

#include "common/media/scale.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { FIXED_BITS = 12, HALF = 1 << (FIXED_BITS - 1), MIDDLE = 128 };

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

struct cv_jpeg_colour cv_jpeg_colour_of(const AVFrame *picture)
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
    return (struct cv_jpeg_colour){
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

/* The lanes do the same sums as the plain loops; every factor is far below 8, so it fits a word. */
static __m128i load_words(const uint8_t *source, int offset)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)source);
    return _mm_sub_epi16(_mm_unpacklo_epi8(bytes, _mm_setzero_si128()),
                         _mm_set1_epi16((short)offset));
}

/* 4 samples, each twice. */
static __m128i load_doubled(const uint8_t *source, int offset)
{
    int32_t four;
    memcpy(&four, source, sizeof(four));
    __m128i bytes = _mm_cvtsi32_si128(four);
    return _mm_sub_epi16(_mm_unpacklo_epi8(_mm_unpacklo_epi8(bytes, bytes), _mm_setzero_si128()),
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
#endif

void cv_jpeg_luma_row(const struct cv_jpeg_colour *colour, const uint8_t *y, const uint8_t *cb,
                      const uint8_t *cr, bool halved, uint8_t *out, int width)
{
    const struct cv_jpeg_colour c = *colour;
    int x = 0;
#if defined(__SSE2__)
    const __m128i y_cb = factors(c.luma_scale, c.y_cb), cr_half = factors(c.y_cr, HALF);
    for (; x + LANES <= width; x += LANES) {
        __m128i blue = halved ? load_doubled(cb + x / 2, MIDDLE) : load_words(cb + x, MIDDLE);
        __m128i red = halved ? load_doubled(cr + x / 2, MIDDLE) : load_words(cr + x, MIDDLE);
        store_clipped(out + x, weigh(load_words(y + x, c.luma_offset), blue, red, y_cb, cr_half));
    }
#endif
    for (; x < width; x++) {
        int at = halved ? x / 2 : x;
        int sum = c.luma_scale * (y[x] - c.luma_offset) + c.y_cb * (cb[at] - MIDDLE) +
                  c.y_cr * (cr[at] - MIDDLE);
        out[x] = clip((sum + HALF) >> FIXED_BITS);
    }
}

void cv_jpeg_chroma_row(const struct cv_jpeg_colour *colour, const uint8_t *cb, const uint8_t *cr,
                        uint8_t *out_cb, uint8_t *out_cr, int width)
{
    const struct cv_jpeg_colour c = *colour;
    int x = 0;
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128(), middle = _mm_set1_epi16(MIDDLE);
    const __m128i cb_1 = factors(0, c.cb_cb), cb_2 = factors(c.cb_cr, HALF);
    const __m128i cr_1 = factors(0, c.cr_cb), cr_2 = factors(c.cr_cr, HALF);
    for (; x + LANES <= width; x += LANES) {
        __m128i blue = load_words(cb + x, MIDDLE), red = load_words(cr + x, MIDDLE);
        store_clipped(out_cb + x, _mm_add_epi16(weigh(zero, blue, red, cb_1, cb_2), middle));
        store_clipped(out_cr + x, _mm_add_epi16(weigh(zero, blue, red, cr_1, cr_2), middle));
    }
#endif
    for (; x < width; x++) {
        int blue = cb[x] - MIDDLE, red = cr[x] - MIDDLE;
        out_cb[x] = clip(((c.cb_cb * blue + c.cb_cr * red + HALF) >> FIXED_BITS) + MIDDLE);
        out_cr[x] = clip(((c.cr_cb * blue + c.cr_cr * red + HALF) >> FIXED_BITS) + MIDDLE);
    }
}
