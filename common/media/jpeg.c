#include "common/media/cleanup.h"
#include "common/media/jpeg_colour.h"
#include "common/media/scale.h"
#include "common/media/tone.h"

#include <jpeglib.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

/* Rows of luma that belong to one row of macroblocks with halved chroma; without, half as many. */
enum { STRIP = 2 * DCTSIZE };

/* libjpeg reports a failure by calling back, and the call may not return. */
struct failure {
    struct jpeg_error_mgr manager; /* first: libjpeg hands out its address */
    jmp_buf back;
    char message[JMSG_LENGTH_MAX];
};

static void on_failure(j_common_ptr context)
{
    struct failure *failure = (struct failure *)(void *)context->err;
    context->err->format_message(context, failure->message);
    longjmp(failure->back, 1);
}

static void on_warning(j_common_ptr context, int level)
{
    (void)context;
    (void)level;
}

/* Sixteen rows of a picture, converted. Widths are rounded up to whole macroblocks. */
struct strip {
    const AVFrame *picture;
    struct cv_jpeg_colour colour;
    bool halved;
    int luma_width, chroma_width; /* bytes a row */
    int rows;                     /* of luma; of chroma as many, or half when halved */
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
        .colour = cv_jpeg_colour_of(picture),
        .halved = halved,
        .luma_width = luma_width,
        .chroma_width = chroma_width,
        .rows = unit,
        .samples = malloc((size_t)luma_width * (size_t)unit +
                          2 * (size_t)chroma_width * (size_t)chroma_rows),
    };
    if (!strip->samples) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a JPEG");
    }
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

/* The last sample of a row, repeated up to the rim of the macroblock. */
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
        cv_jpeg_luma_row(&strip->colour, row_of(picture, 0, y), row_of(picture, 1, chroma_y),
                         row_of(picture, 2, chroma_y), strip->halved, strip->luma[i], width);
        pad_row(strip->luma[i], width, strip->luma_width);
    }
    for (int i = 0; i < DCTSIZE; i++) {
        int y = strip->halved ? top / 2 + i : top + i;
        int end = strip->halved ? last / 2 : last;
        y = y > end ? end : y;
        cv_jpeg_chroma_row(&strip->colour, row_of(picture, 1, y), row_of(picture, 2, y),
                           strip->blue[i], strip->red[i], chroma_width);
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

/* `ret_data` and `ret_size` live in the caller, so that they keep their values when libjpeg jumps
 * back. */
static int encode(struct strip *strip, int quality, unsigned char **ret_data,
                  unsigned long *ret_size, struct cv_error *error)
{
    struct jpeg_compress_struct encoder = {0};
    struct failure failure;
    encoder.err = jpeg_std_error(&failure.manager);
    failure.manager.error_exit = on_failure;
    failure.manager.emit_message = on_warning;
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

/* The picture scaled to fit, as planes of bytes with chroma in full or half size; *ret_frame is
 * NULL when the picture is that already. */
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
    cv_auto(sws_freeContext) struct SwsContext *cache = NULL;
    return cv_scale_picture(picture, width, height, AV_PIX_FMT_YUV444P, cv_is_full_range(picture),
                            &cache, ret_frame, error);
}

int cv_picture_jpeg(const AVFrame *picture, int quality, int max_side, void **ret_data,
                    size_t *ret_size, struct cv_error *error)
{
    if (picture->width <= 0 || picture->height <= 0) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no picture to write as JPEG");
    }
    cv_auto(cv_av_frame_free) AVFrame *ordinary = NULL;
    cv_auto(cv_av_frame_free) AVFrame *scaled = NULL;
    int result = cv_tone_is_high(picture) ? cv_tone_map(picture, &ordinary, error) : 0;
    const AVFrame *from = ordinary ? ordinary : picture;
    result = result ? result : prepare(from, max_side, &scaled, error);
    if (result != 0) {
        return result;
    }
    cv_auto(strip_deinit) struct strip strip = {0};
    result = strip_init(&strip, scaled ? scaled : from, error);
    if (result != 0) {
        return result;
    }
    unsigned char *data = NULL;
    unsigned long size = 0;
    result = encode(&strip, quality, &data, &size, error);
    if (result != 0) {
        free(data);
        return result;
    }
    *ret_data = data;
    *ret_size = size;
    return 0;
}
