#include "workers/clip_generate/picture.h"

#include <libavutil/mathematics.h>

enum { SIDE_MIN = 2 }; /* of anything that is encoded */

int picture_size(const struct clip_box *box, const struct cv_media_info *info, int *ret_width,
                 int *ret_height, struct cv_error *error)
{
    bool whole = box->width == 0;
    if (!whole && (box->x + box->width > info->width || box->y + box->height > info->height)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"crop\" reaches over the edge of a picture of %d×%d pixels",
                       info->width, info->height);
    }
    *ret_width = whole ? info->width : box->width;
    *ret_height = whole ? info->height : box->height;
    return 0;
}

int picture_part(const struct clip_box *box, const struct cv_media_info *info,
                 const AVFrame *picture, AVFrame **ret_part, struct cv_error *error)
{
    AVFrame *part = av_frame_clone(picture);
    CV_TRY_MEMORY(part, error, "a picture");
    if (box->width > 0) {
        int right = info->width - box->x - box->width, below = info->height - box->y - box->height;
        part->crop_left = (size_t)av_rescale(box->x, picture->width, info->width);
        part->crop_right = (size_t)av_rescale(right, picture->width, info->width);
        part->crop_top = (size_t)av_rescale(box->y, picture->height, info->height);
        part->crop_bottom = (size_t)av_rescale(below, picture->height, info->height);
        if (av_frame_apply_cropping(part, AV_FRAME_CROP_UNALIGNED) < 0) {
            av_frame_free(&part);
            return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                           "payload: \"crop\" does not fit a picture of %d×%d pixels",
                           picture->width, picture->height);
        }
    }
    *ret_part = part;
    return 0;
}

int picture_longest_side(int width, int height, int max_height, int max_side)
{
    int64_t side = width > height ? width : height;
    if (max_height > 0 && height > max_height) {
        side = side * max_height / height;
    }
    side = side < max_side ? side : max_side;
    return side < SIDE_MIN ? SIDE_MIN : (int)side;
}
