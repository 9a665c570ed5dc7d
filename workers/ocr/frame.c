#include "workers/ocr/frame.h"

#include <leptonica/allheaders.h>
#include <string.h>

struct ocr_box ocr_box_clip(const struct ocr_box *box, int width, int height)
{
    int left = ocr_max(box->x, 0), top = ocr_max(box->y, 0);
    int right = ocr_min(ocr_right(box), width), bottom = ocr_min(ocr_bottom(box), height);

    return (struct ocr_box){left, top, ocr_max(right - left, 0), ocr_max(bottom - top, 0)};
}

struct ocr_box ocr_box_union(const struct ocr_box *a, const struct ocr_box *b)
{
    int left = ocr_min(a->x, b->x), top = ocr_min(a->y, b->y);
    int right = ocr_max(ocr_right(a), ocr_right(b));
    int bottom = ocr_max(ocr_bottom(a), ocr_bottom(b));

    return (struct ocr_box){left, top, right - left, bottom - top};
}

int64_t ocr_box_overlap(const struct ocr_box *a, const struct ocr_box *b)
{
    int width = ocr_min(ocr_right(a), ocr_right(b)) - ocr_max(a->x, b->x);
    int height = ocr_min(ocr_bottom(a), ocr_bottom(b)) - ocr_max(a->y, b->y);

    return width > 0 && height > 0 ? (int64_t)width * height : 0;
}

int ocr_frame_init(struct ocr_frame *frame, int width, int height, struct cv_error *error)
{
    size_t area = (size_t)width * (size_t)height;
    uint8_t *pixels = calloc(OCR_PLANES, area ? area : 1);

    if (!pixels) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a frame of %d × %d pixels",
                       width, height);
    }
    *frame = (struct ocr_frame){.width = width, .height = height, .reduction = 1};
    for (int i = 0; i < OCR_PLANES; i++) {
        frame->plane[i] = pixels + (size_t)i * area;
    }
    return 0;
}

void ocr_frame_deinit(struct ocr_frame *frame)
{
    free(frame->plane[0]);
    *frame = (struct ocr_frame){0};
}

void ocr_frame_luma(struct ocr_frame *frame)
{
    size_t area = (size_t)frame->width * (size_t)frame->height;
    const uint8_t *red = frame->plane[OCR_RED], *green = frame->plane[OCR_GREEN];
    const uint8_t *blue = frame->plane[OCR_BLUE];
    uint8_t *luma = frame->plane[OCR_LUMA];

    for (size_t i = 0; i < area; i++) {
        luma[i] = (uint8_t)((77 * red[i] + 150 * green[i] + 29 * blue[i] + 128) >> 8);
    }
}

static void take_colour_row(const uint32_t *words, int width, uint8_t *red, uint8_t *green,
                            uint8_t *blue)
{
    for (int x = 0; x < width; x++) {
        red[x] = (uint8_t)(words[x] >> L_RED_SHIFT);
        green[x] = (uint8_t)(words[x] >> L_GREEN_SHIFT);
        blue[x] = (uint8_t)(words[x] >> L_BLUE_SHIFT);
    }
}

static void take_grey_row(const uint32_t *words, int width, uint8_t *red, uint8_t *green,
                          uint8_t *blue)
{
    for (int x = 0; x < width; x++) {
        red[x] = green[x] = blue[x] = (uint8_t)GET_DATA_BYTE(words, x);
    }
}

static int take_pixels(PIX *picture, struct ocr_frame *frame, struct cv_error *error)
{
    int width = pixGetWidth(picture), height = pixGetHeight(picture);
    int depth = pixGetDepth(picture);
    const uint32_t *words = pixGetData(picture);
    size_t words_per_row = (size_t)pixGetWpl(picture);

    if (depth != 8 && depth != 32) {
        return cv_fail(error, CV_ERROR_DECODE, "the JPEG has %d bits a pixel", depth);
    }
    int result = ocr_frame_init(frame, width, height, error);
    if (result < 0) {
        return result;
    }
    for (int y = 0; y < height; y++) {
        size_t at = (size_t)y * (size_t)width;
        const uint32_t *row = words + (size_t)y * words_per_row;
        (depth == 32 ? take_colour_row : take_grey_row)(row, width, frame->plane[OCR_RED] + at,
                                                        frame->plane[OCR_GREEN] + at,
                                                        frame->plane[OCR_BLUE] + at);
    }
    ocr_frame_luma(frame);
    return 0;
}

int ocr_frame_decode(const void *data, size_t size, struct ocr_frame *ret_frame,
                     struct cv_error *error)
{
    l_int32 width = 0, height = 0, reduction = 1, warnings = 0;

    if (size < 4 || size > OCR_FRAME_BYTES_MAX || memcmp(data, "\xff\xd8\xff", 3) != 0) {
        return cv_fail(error, CV_ERROR_DECODE, "not a JPEG picture");
    }
    if (readHeaderMemJpeg(data, size, &width, &height, NULL, NULL, NULL) != 0 || width < 1 ||
        height < 1) {
        return cv_fail(error, CV_ERROR_DECODE, "the JPEG's header cannot be read");
    }
    if (width > OCR_FRAME_SIDE_MAX || height > OCR_FRAME_SIDE_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                       "the JPEG has %d × %d pixels, more than %d on a side", width, height,
                       OCR_FRAME_SIDE_MAX);
    }
    while (reduction < 8 &&
           (int64_t)width * height / (reduction * reduction) > OCR_FRAME_AREA_MAX) {
        reduction *= 2;
    }
    PIX *picture = pixReadMemJpeg(data, size, 0, reduction, &warnings, 0);
    /* libjpeg fills what is missing with grey and only warns. */
    if (!picture || warnings > 0) {
        pixDestroy(&picture);
        return cv_fail(error, CV_ERROR_DECODE, "the JPEG is damaged or cut off");
    }
    struct ocr_frame frame = {0};
    int result = take_pixels(picture, &frame, error);
    pixDestroy(&picture);
    if (result < 0) {
        return result;
    }
    frame.reduction = reduction;
    *ret_frame = frame;
    return 0;
}
