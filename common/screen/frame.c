#include "common/screen/frame.h"

#include "common/media/media.h"

#include <string.h>

int cv_frame_init(struct cv_frame *frame, int width, int height, struct cv_error *error)
{
    size_t area = (size_t)width * (size_t)height;
    uint8_t *pixels = calloc(CV_PLANES, area ? area : 1);

    CV_TRY_MEMORY(pixels, error, "a frame");
    *frame = (struct cv_frame){.width = width, .height = height, .reduction = 1};
    for (int i = 0; i < CV_PLANES; i++) {
        frame->plane[i] = pixels + (size_t)i * area;
    }
    return 0;
}

void cv_frame_deinit(struct cv_frame *frame)
{
    free(frame->plane[0]);
    *frame = (struct cv_frame){0};
}

int cv_frame_decode(const void *data, size_t size, struct cv_frame *ret_frame,
                    struct cv_error *error)
{
    if (size > CV_FRAME_BYTES_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a JPEG of %zu bytes is too large", size);
    }
    struct cv_jpeg_picture picture;
    CV_TRY(cv_jpeg_read(data, size, CV_FRAME_AREA_MAX, &picture, error));
    struct cv_frame frame = {
        .width = picture.width, .height = picture.height, .reduction = picture.reduction};
    memcpy(frame.plane, picture.plane, sizeof(frame.plane));
    *ret_frame = frame;
    return 0;
}
