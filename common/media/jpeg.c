#include "common/media/jpeg.h"

#include "common/media/info.h"
#include "common/media/jpeg_failure.h"
#include "common/media/libav.h"
#include "common/media/scale.h"

#include <jpeglib.h>
#include <libavutil/pixdesc.h>
#include <simde/x86/sse2.h>
#include <stdio.h>
#include <string.h>

/* ---- brightness ------------------------------------------------------------------------------ */

/* Limited-range video has black at 16 and white at 235 (ITU-R BT.601, BT.709). With 7 fractional
 * bits, stretching by 255/219 fits 16-bit arithmetic, which compilers vectorise; the result is
 * exact to within one step. */
enum { BLACK = 16, STRETCH = 149, STRETCH_BITS = 7, STRETCH_HALF = 64 };

static uint8_t stretch(uint8_t sample)
{
    uint16_t above = sample < BLACK ? 0 : (uint16_t)(sample - BLACK);
    uint16_t wide = (uint16_t)((above * STRETCH + STRETCH_HALF) >> STRETCH_BITS);
    return wide > 255 ? 255 : (uint8_t)wide;
}

static void row_from_8_bits(const uint8_t *restrict source, uint8_t *restrict luma, int width,
                            bool full_range)
{
    if (full_range) {
        (void)memcpy(luma, source, (size_t)width);
        return;
    }
    for (int x = 0; x < width; x++) {
        luma[x] = stretch(source[x]);
    }
}

/* 8 words as bytes in words, by the same arithmetic as stretch(). */
static __m128i narrow(const uint16_t *source, int shift, bool full_range)
{
    __m128i samples = _mm_srli_epi16(_mm_loadu_si128((const __m128i *)source), shift);
    samples = _mm_and_si128(samples, _mm_set1_epi16(255));
    if (full_range) {
        return samples;
    }
    __m128i above = _mm_subs_epu16(samples, _mm_set1_epi16(BLACK));
    __m128i wide = _mm_mullo_epi16(above, _mm_set1_epi16(STRETCH));
    return _mm_srli_epi16(_mm_add_epi16(wide, _mm_set1_epi16(STRETCH_HALF)), STRETCH_BITS);
}

/* Compilers do not vectorise this for -O2, and it is done to every picture of a 10 bit video. */
static void row_from_16_bits(const uint16_t *restrict source, uint8_t *restrict luma, int width,
                             int shift, bool full_range)
{
    int x = 0;
    for (; x + 16 <= width; x += 16) {
        __m128i bytes = _mm_packus_epi16(narrow(source + x, shift, full_range),
                                         narrow(source + x + 8, shift, full_range));
        _mm_storeu_si128((__m128i *)(luma + x), bytes);
    }
    for (; x < width; x++) {
        uint8_t sample = (uint8_t)(source[x] >> shift);
        luma[x] = full_range ? sample : stretch(sample);
    }
}

/* Whether the first plane holds only luma, in bytes or little-endian words. */
static bool has_plain_luma(const AVPixFmtDescriptor *description)
{
    const AVComponentDescriptor *luma = &description->comp[0];
    uint64_t excluded = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM |
                        AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_BE | AV_PIX_FMT_FLAG_BAYER |
                        AV_PIX_FMT_FLAG_FLOAT | AV_PIX_FMT_FLAG_ALPHA;
    if ((description->flags & excluded) != 0 || luma->plane != 0 || luma->offset != 0) {
        return false;
    }
    return (luma->depth == 8 && luma->step == 1) ||
           (luma->depth > 8 && luma->depth <= 16 && luma->step == 2);
}

int cv_picture_luma(const AVFrame *picture, uint8_t *luma, int stride, struct cv_error *error)
{
    const AVPixFmtDescriptor *description = av_pix_fmt_desc_get(picture->format);
    if (!description || picture->width <= 0 || picture->height <= 0 || stride < picture->width) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no picture to take the luma of");
    }
    const AVFrame *from = picture;
    bool full_range = cv_is_full_range(picture);
    cv_auto(cv_av_frame_free) AVFrame *grey = NULL;
    if (!has_plain_luma(description)) {
        cv_auto(sws_freeContext) struct SwsContext *cache = NULL;
        CV_TRY(cv_scale_picture(picture, picture->width, picture->height, AV_PIX_FMT_GRAY8, true,
                                &cache, &grey, error));
        from = grey;
        full_range = true;
        description = av_pix_fmt_desc_get(AV_PIX_FMT_GRAY8);
    } else if (description->nb_components == 1 && picture->color_range != AVCOL_RANGE_MPEG) {
        full_range = true; /* grey pictures are full range unless they say otherwise */
    }

    const AVComponentDescriptor *component = &description->comp[0];
    int shift = component->shift + component->depth - 8;
    for (int y = 0; y < from->height; y++) {
        const uint8_t *row = from->data[0] + (ptrdiff_t)y * from->linesize[0];
        uint8_t *target = luma + (ptrdiff_t)y * stride;
        if (component->step == 1) {
            row_from_8_bits(row, target, from->width, full_range);
        } else {
            row_from_16_bits((const uint16_t *)(const void *)row, target, from->width, shift,
                             full_range);
        }
    }
    return 0;
}

/* ---- colours as JFIF wants them -------------------------------------------------------------- */

/* Conversion from another matrix and range to JPEG's, in fixed point. Luma depends on both chroma
 * samples; chroma does not depend on luma, so that 4:2:0 chroma can stay 4:2:0. */
struct jpeg_colour {
    int luma_scale, luma_offset;
    int y_cb, y_cr, cb_cb, cb_cr, cr_cb, cr_cr;
};

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

static struct jpeg_colour colour_of(const AVFrame *picture)
{
    double red, blue, kr = 0.299, kb = 0.114;
    luma_coefficients(picture->colorspace, &red, &blue);
    bool full = cv_is_full_range(picture);
    double luma = full ? 1.0 : 255.0 / 219.0;
    double chroma = full ? 1.0 : 255.0 / 224.0;

    /* R = Y + rv·Cr, B = Y + bu·Cb, G = Y + gu·Cb + gv·Cr of the source, weighted again with the
     * weights of JPEG. */
    double rv = 2 * (1 - red), bu = 2 * (1 - blue), green = 1 - red - blue;
    double gu = -blue * bu / green, gv = -red * rv / green;
    double y_cb = kb * bu + (1 - kr - kb) * gu, y_cr = kr * rv + (1 - kr - kb) * gv;
    return (struct jpeg_colour){
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

enum { LANES = 8 };

/* The vector code calculates the same sums as the plain loops. Every factor is far below 8, so it
 * fits a 16-bit word. */
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

/* Two factors for a multiplication of word pairs. */
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

/* Converts a row of luma. With `halved`, two luma samples share each chroma sample. */
static void luma_row(const struct jpeg_colour *colour, const uint8_t *y, const uint8_t *cb,
                     const uint8_t *cr, bool halved, uint8_t *out, int width)
{
    const struct jpeg_colour c = *colour;
    int x = 0;
    const __m128i y_cb = factors(c.luma_scale, c.y_cb), cr_half = factors(c.y_cr, HALF);
    for (; x + LANES <= width; x += LANES) {
        __m128i blue = halved ? load_doubled(cb + x / 2, MIDDLE) : load_words(cb + x, MIDDLE);
        __m128i red = halved ? load_doubled(cr + x / 2, MIDDLE) : load_words(cr + x, MIDDLE);
        store_clipped(out + x, weigh(load_words(y + x, c.luma_offset), blue, red, y_cb, cr_half));
    }
    for (; x < width; x++) {
        int at = halved ? x / 2 : x;
        int sum = c.luma_scale * (y[x] - c.luma_offset) + c.y_cb * (cb[at] - MIDDLE) +
                  c.y_cr * (cr[at] - MIDDLE);
        out[x] = clip((sum + HALF) >> FIXED_BITS);
    }
}

/* Converts a row of both chroma planes, `width` samples each. */
static void chroma_row(const struct jpeg_colour *colour, const uint8_t *cb, const uint8_t *cr,
                       uint8_t *out_cb, uint8_t *out_cr, int width)
{
    const struct jpeg_colour c = *colour;
    int x = 0;
    const __m128i zero = _mm_setzero_si128(), middle = _mm_set1_epi16(MIDDLE);
    const __m128i cb_1 = factors(0, c.cb_cb), cb_2 = factors(c.cb_cr, HALF);
    const __m128i cr_1 = factors(0, c.cr_cb), cr_2 = factors(c.cr_cr, HALF);
    for (; x + LANES <= width; x += LANES) {
        __m128i blue = load_words(cb + x, MIDDLE), red = load_words(cr + x, MIDDLE);
        store_clipped(out_cb + x, _mm_add_epi16(weigh(zero, blue, red, cb_1, cb_2), middle));
        store_clipped(out_cr + x, _mm_add_epi16(weigh(zero, blue, red, cr_1, cr_2), middle));
    }
    for (; x < width; x++) {
        int blue = cb[x] - MIDDLE, red = cr[x] - MIDDLE;
        out_cb[x] = clip(((c.cb_cb * blue + c.cb_cr * red + HALF) >> FIXED_BITS) + MIDDLE);
        out_cr[x] = clip(((c.cr_cb * blue + c.cr_cr * red + HALF) >> FIXED_BITS) + MIDDLE);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Rows of luma in one row of macroblocks if chroma is halved; otherwise half as many. */
enum { STRIP = 2 * DCTSIZE };

/* Sixteen converted rows of a picture. Widths are rounded up to whole macroblocks. */
struct strip {
    const AVFrame *picture;
    struct jpeg_colour colour;
    bool halved;
    int luma_width, chroma_width; /* bytes a row */
    int rows; /* of luma; chroma has the same number, or half of it when halved */
    uint8_t *samples;
    JSAMPROW luma[STRIP], blue[STRIP], red[STRIP];
    JSAMPARRAY planes[3];
};

static int strip_init(struct strip *strip, const AVFrame *picture, struct cv_error *error)
{
    bool halved = cv_plain_format(picture->format) == AV_PIX_FMT_YUV420P;
    int unit = halved ? STRIP : DCTSIZE;
    int luma_width = (picture->width + unit - 1) / unit * unit;
    int chroma_width = halved ? luma_width / 2 : luma_width;
    int chroma_rows = DCTSIZE;
    *strip = (struct strip){
        .picture = picture,
        .colour = colour_of(picture),
        .halved = halved,
        .luma_width = luma_width,
        .chroma_width = chroma_width,
        .rows = unit,
        .samples = malloc((size_t)luma_width * (size_t)unit +
                          2 * (size_t)chroma_width * (size_t)chroma_rows),
    };
    CV_TRY_MEMORY(strip->samples, error, "a JPEG");
    uint8_t *chroma = strip->samples + (size_t)luma_width * (size_t)unit;
    for (int i = 0; i < unit; i++) {
        strip->luma[i] = strip->samples + (size_t)luma_width * (size_t)i;
    }
    for (int i = 0; i < chroma_rows; i++) {
        strip->blue[i] = chroma + (size_t)chroma_width * (size_t)i;
        strip->red[i] = strip->blue[i] + (size_t)chroma_width * (size_t)chroma_rows;
    }
    strip->planes[0] = strip->luma;
    strip->planes[1] = strip->blue;
    strip->planes[2] = strip->red;
    return 0;
}

static void strip_deinit(struct strip *strip)
{
    free(strip->samples);
}
CV_DEFINE_CLEANUP_ADDRESS(struct strip, strip_deinit)

static const uint8_t *row_of(const AVFrame *picture, int plane, int y)
{
    return picture->data[plane] + (ptrdiff_t)y * picture->linesize[plane];
}

/* Repeats the last sample of a row up to the end of the macroblock. */
static void pad_row(uint8_t *row, int width, int padded)
{
    memset(row + width, row[width - 1], (size_t)(padded - width));
}

/* Converts the rows from `top` on; below the picture, its last row is repeated. */
static void strip_fill(struct strip *strip, int top)
{
    const AVFrame *picture = strip->picture;
    int width = picture->width, last = picture->height - 1;
    int chroma_width = strip->halved ? (width + 1) / 2 : width;
    for (int i = 0; i < strip->rows; i++) {
        int y = top + i > last ? last : top + i;
        int chroma_y = strip->halved ? y / 2 : y;
        luma_row(&strip->colour, row_of(picture, 0, y), row_of(picture, 1, chroma_y),
                 row_of(picture, 2, chroma_y), strip->halved, strip->luma[i], width);
        pad_row(strip->luma[i], width, strip->luma_width);
    }
    for (int i = 0; i < DCTSIZE; i++) {
        int y = strip->halved ? top / 2 + i : top + i;
        int end = strip->halved ? last / 2 : last;
        y = y > end ? end : y;
        chroma_row(&strip->colour, row_of(picture, 1, y), row_of(picture, 2, y), strip->blue[i],
                   strip->red[i], chroma_width);
        pad_row(strip->blue[i], chroma_width, strip->chroma_width);
        pad_row(strip->red[i], chroma_width, strip->chroma_width);
    }
}

static void set_up(struct jpeg_compress_struct *encoder, const struct strip *strip, int quality)
{
    encoder->image_width = (JDIMENSION)strip->picture->width;
    encoder->image_height = (JDIMENSION)strip->picture->height;
    encoder->input_components = 3;
    encoder->in_color_space = JCS_YCbCr;
    jpeg_set_defaults(encoder);
    jpeg_set_quality(encoder, quality, TRUE);
    encoder->raw_data_in = TRUE;
    encoder->comp_info[0].h_samp_factor = strip->halved ? 2 : 1;
    encoder->comp_info[0].v_samp_factor = strip->halved ? 2 : 1;
    jpeg_start_compress(encoder, TRUE);
}

/* `ret_data` and `ret_size` belong to the caller, so that they keep their values when libjpeg jumps
 * back by longjmp. */
static int encode(struct strip *strip, int quality, unsigned char **ret_data,
                  unsigned long *ret_size, struct cv_error *error)
{
    struct jpeg_compress_struct encoder = {0};
    struct cv_jpeg_failure failure;
    encoder.err = cv_jpeg_errors(&failure);
    if (setjmp(failure.back) != 0) {
        jpeg_destroy_compress(&encoder);
        return cv_fail(error, CV_ERROR_ENCODE, "cannot write a %d×%d JPEG: %s",
                       strip->picture->width, strip->picture->height, failure.message);
    }
    jpeg_create_compress(&encoder);
    jpeg_mem_dest(&encoder, ret_data, ret_size);
    set_up(&encoder, strip, quality);
    while (encoder.next_scanline < encoder.image_height) {
        strip_fill(strip, (int)encoder.next_scanline);
        (void)jpeg_write_raw_data(&encoder, strip->planes, (JDIMENSION)strip->rows);
    }
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    return 0;
}

/* Scales the picture to fit, as planes of bytes with chroma in full or half size. *ret_frame is
 * NULL if the picture needs no change. */
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
        *ret_frame = NULL;
        return 0;
    }
    /* what has half of the chroma stays so */
    const AVPixFmtDescriptor *description = av_pix_fmt_desc_get(format);
    bool halved = same_size && description && description->log2_chroma_w == 1 &&
                  description->log2_chroma_h == 1;
    cv_auto(sws_freeContext) struct SwsContext *cache = NULL;
    return cv_scale_picture(picture, width, height,
                            halved ? AV_PIX_FMT_YUV420P : AV_PIX_FMT_YUV444P,
                            cv_is_full_range(picture), &cache, ret_frame, error);
}

int cv_picture_jpeg(const AVFrame *picture, int quality, int max_side, void **ret_data,
                    size_t *ret_size, struct cv_error *error)
{
    if (picture->width <= 0 || picture->height <= 0) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no picture to write as JPEG");
    }
    cv_auto(cv_av_frame_free) AVFrame *ordinary = NULL;
    cv_auto(cv_av_frame_free) AVFrame *scaled = NULL;
    CV_TRY(cv_tone_is_high(picture) ? cv_tone_map(picture, &ordinary, error) : 0);
    const AVFrame *from = ordinary ? ordinary : picture;
    CV_TRY(prepare(from, max_side, &scaled, error));
    cv_auto(strip_deinit) struct strip strip = {0};
    CV_TRY(strip_init(&strip, scaled ? scaled : from, error));
    unsigned char *data = NULL;
    unsigned long size = 0;
    int result = encode(&strip, quality, &data, &size, error);
    if (result != 0) {
        free(data);
        return result;
    }
    *ret_data = data;
    *ret_size = size;
    return 0;
}
