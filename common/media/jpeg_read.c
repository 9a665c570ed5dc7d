#include "common/media/jpeg_read.h"

#include "common/media/info.h"
#include "common/media/jpeg_failure.h"

#include <simde/x86/sse2.h>
#include <string.h>

enum { PIXEL = 4 }; /* bytes of a pixel as libjpeg writes it here: red, green, blue, nothing */

/* Weights of BT.601 in 256ths. */
enum { RED_SHARE = 77, GREEN_SHARE = 150, BLUE_SHARE = 29, SHARE_HALF = 128, SHARE_BITS = 8 };

/* Extracts one byte from each of 8 pixels, as words. */
static __m128i pick(__m128i low, __m128i high, int shift)
{
    __m128i mask = _mm_set1_epi32(0xff);
    return _mm_packs_epi32(_mm_and_si128(_mm_srli_epi32(low, shift), mask),
                           _mm_and_si128(_mm_srli_epi32(high, shift), mask));
}

static void store_bytes(uint8_t *target, __m128i words)
{
    _mm_storel_epi64((__m128i *)target, _mm_packus_epi16(words, words));
}

/* Writes a row of pixels to the four planes at `at`. */
static void write_row(const uint8_t *pixels, struct cv_jpeg_picture *picture, size_t at)
{
    uint8_t *red = picture->plane[0] + at, *green = picture->plane[1] + at;
    uint8_t *blue = picture->plane[2] + at, *luma = picture->plane[3] + at;
    int x = 0;
    for (; x + 8 <= picture->width; x += 8) {
        const __m128i *words = (const __m128i *)(const void *)(pixels + (ptrdiff_t)x * PIXEL);
        __m128i low = _mm_loadu_si128(words), high = _mm_loadu_si128(words + 1);
        __m128i r = pick(low, high, 0), g = pick(low, high, 8), b = pick(low, high, 16);
        __m128i sum = _mm_add_epi16(_mm_mullo_epi16(r, _mm_set1_epi16(RED_SHARE)),
                                    _mm_mullo_epi16(g, _mm_set1_epi16(GREEN_SHARE)));
        sum = _mm_add_epi16(sum, _mm_mullo_epi16(b, _mm_set1_epi16(BLUE_SHARE)));
        sum = _mm_srli_epi16(_mm_add_epi16(sum, _mm_set1_epi16(SHARE_HALF)), SHARE_BITS);
        store_bytes(red + x, r);
        store_bytes(green + x, g);
        store_bytes(blue + x, b);
        store_bytes(luma + x, sum);
    }
    for (; x < picture->width; x++) {
        const uint8_t *pixel = pixels + (ptrdiff_t)x * PIXEL;
        red[x] = pixel[0];
        green[x] = pixel[1];
        blue[x] = pixel[2];
        luma[x] = (uint8_t)((RED_SHARE * pixel[0] + GREEN_SHARE * pixel[1] + BLUE_SHARE * pixel[2] +
                             SHARE_HALF) >>
                            SHARE_BITS);
    }
}

/* Reads the header and sets the size of the result. */
static const char *read_header(struct jpeg_decompress_struct *decoder, int area_max,
                               struct cv_jpeg_picture *picture)
{
    (void)jpeg_read_header(decoder, TRUE);
    if (decoder->image_width > CV_MEDIA_SIDE_MAX || decoder->image_height > CV_MEDIA_SIDE_MAX) {
        return "too large";
    }
    int reduction = 1;
    int64_t area = (int64_t)decoder->image_width * decoder->image_height;
    while (reduction < 8 && area / (reduction * reduction) > area_max) {
        reduction *= 2;
    }
    decoder->scale_num = 1;
    decoder->scale_denom = (unsigned)reduction;
    decoder->out_color_space = JCS_EXT_RGBX;
    jpeg_calc_output_dimensions(decoder);
    picture->reduction = reduction;
    picture->width = (int)decoder->output_width;
    picture->height = (int)decoder->output_height;
    return NULL;
}

/* `picture` belongs to the caller, so that it keeps its allocations when libjpeg jumps back by
 * longjmp. */
static int decode(const void *data, size_t size, int area_max, struct cv_jpeg_picture *picture,
                  uint8_t **row, struct cv_error *error)
{
    struct jpeg_decompress_struct decoder = {0};
    struct cv_jpeg_failure failure;
    decoder.err = cv_jpeg_errors(&failure);
    if (setjmp(failure.back) != 0) {
        jpeg_destroy_decompress(&decoder);
        return cv_fail(error, CV_ERROR_DECODE, "the JPEG is damaged or cut off: %s",
                       failure.message);
    }
    jpeg_create_decompress(&decoder);
    jpeg_mem_src(&decoder, data, size);
    if (read_header(&decoder, area_max, picture) != NULL) {
        unsigned width = decoder.image_width, height = decoder.image_height;
        jpeg_destroy_decompress(&decoder);
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                       "the JPEG has %u × %u pixels, more than %d on a side", width, height,
                       CV_MEDIA_SIDE_MAX);
    }
    size_t width = (size_t)picture->width, area = width * (size_t)picture->height;
    *row = malloc(PIXEL + width * PIXEL);
    picture->plane[0] = malloc(4 * area);
    if (!*row || !picture->plane[0]) {
        jpeg_destroy_decompress(&decoder);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a picture of %d × %d pixels",
                       picture->width, picture->height);
    }
    for (int i = 1; i < 4; i++) {
        picture->plane[i] = picture->plane[0] + (size_t)i * area;
    }
    /* Not aligned on purpose: libjpeg-turbo writes aligned rows past the caches, but the row is
     * read right after. */
    uint8_t *pixels = *row + PIXEL;
    (void)jpeg_start_decompress(&decoder);
    while (decoder.output_scanline < decoder.output_height) {
        size_t at = width * decoder.output_scanline;
        JSAMPROW rows[] = {pixels};
        (void)jpeg_read_scanlines(&decoder, rows, 1);
        write_row(pixels, picture, at);
    }
    (void)jpeg_finish_decompress(&decoder);
    jpeg_destroy_decompress(&decoder);
    return 0;
}

int cv_jpeg_read(const void *data, size_t size, int area_max, struct cv_jpeg_picture *ret_picture,
                 struct cv_error *error)
{
    static const uint8_t start[] = {0xff, 0xd8, 0xff};
    if (size <= sizeof(start) || memcmp(data, start, sizeof(start)) != 0) {
        return cv_fail(error, CV_ERROR_DECODE, "not a JPEG picture");
    }
    struct cv_jpeg_picture picture = {0};
    cv_auto_free uint8_t *row = NULL;
    int result = decode(data, size, area_max, &picture, &row, error);
    if (result != 0) {
        free(picture.plane[0]);
        return result;
    }
    *ret_picture = picture;
    return 0;
}
