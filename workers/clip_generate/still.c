#include "workers/clip_generate/still.h"

#include "workers/clip_generate/picture.h"

enum {
    QUALITY = 92,         /* text stays readable when it is enlarged */
    SIDE_MAX_JPEG = 16384 /* pixels; the largest side that is decoded */
};

static int make_jpeg(const struct cv_decoder *decoder, const struct clip_request *request,
                     const AVFrame *picture, void **ret_data, size_t *ret_size,
                     struct cv_error *error)
{
    const struct cv_media_info *info = cv_decoder_info(decoder);
    AVFrame *part = NULL;
    int result = picture_part(&request->crop, info, picture, &part, error);
    if (result == 0) {
        int side =
            picture_longest_side(part->width, part->height, request->max_height, SIDE_MAX_JPEG);
        result = cv_picture_jpeg(part, QUALITY, side, ret_data, ret_size, error);
    }
    av_frame_free(&part);
    return result;
}

int still_take(struct cv_decoder *decoder, int64_t moment_us, const struct clip_request *request,
               void **ret_data, size_t *ret_size, struct still_report *ret_report,
               struct cv_error *error)
{
    int width, height;
    int result = picture_size(&request->crop, cv_decoder_info(decoder), &width, &height, error);
    result = result ? result : cv_decoder_seek(decoder, moment_us, error);
    if (result != 0) {
        return result;
    }
    AVFrame *standing = NULL;
    struct still_report report = {.source_end_us = INT64_MAX};
    for (;;) {
        struct cv_video_frame frame;
        result = cv_decoder_next(decoder, &frame, error);
        if (result != CV_DECODER_FRAME || (standing && frame.pts_us > moment_us)) {
            break;
        }
        av_frame_free(&standing);
        standing = av_frame_clone(frame.picture);
        report.time_us = frame.pts_us;
        report.source_end_us = frame.pts_us + frame.duration_us;
        CV_TRY_MEMORY(standing, error, "a picture");
    }
    if (result == CV_DECODER_FRAME) {
        report.source_end_us = INT64_MAX;
    }
    if (result >= 0 && !standing) {
        result = cv_fail(error, CV_ERROR_DECODE, "no picture could be decoded");
    } else if (result >= 0) {
        result = make_jpeg(decoder, request, standing, ret_data, ret_size, error);
    }
    av_frame_free(&standing);
    if (result == 0) {
        *ret_report = report;
    }
    return result;
}
