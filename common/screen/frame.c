#include "common/screen/frame.h"

#include "common/media/media.h"

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

bool ocr_box_lies_in(const struct ocr_box *box, const struct ocr_box *around)
{
    return box->x >= around->x && box->y >= around->y && ocr_right(box) <= ocr_right(around) &&
           ocr_bottom(box) <= ocr_bottom(around);
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

    CV_TRY_MEMORY(pixels, error, "a frame");
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

int ocr_frame_decode(const void *data, size_t size, struct ocr_frame *ret_frame,
                     struct cv_error *error)
{
    if (size > OCR_FRAME_BYTES_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a JPEG of %zu bytes is too large", size);
    }
    struct cv_jpeg_picture picture;
    CV_TRY(cv_jpeg_read(data, size, OCR_FRAME_AREA_MAX, &picture, error));
    struct ocr_frame frame = {
        .width = picture.width, .height = picture.height, .reduction = picture.reduction};
    memcpy(frame.plane, picture.plane, sizeof(frame.plane));
    *ret_frame = frame;
    return 0;
}
