#include "workers/clip_generate/cut.h"

struct cut {
    struct cv_decoder *decoder;
    struct cv_media_info source; /* as the output sees it: cropped, muted */
    struct cv_output *output;
    const struct cut_params *params;
    AVFrame *standing; /* the newest picture before the range, else the first behind its start */
    int64_t end_of_frames_us, end_of_sound_us;
    int64_t first_us, last_us;
    int64_t written;
    bool frames_done, sound_done;
};

static void cut_deinit(struct cut *cut)
{
    cv_output_free(cut->output);
    av_frame_free(&cut->standing);
}
CV_DEFINE_CLEANUP_ADDRESS(struct cut, cut_deinit)

static bool is_cropped(const struct cut *cut)
{
    return cut->params->crop.width > 0;
}

/* The part of the picture that was asked for; the same part of a picture whose size has changed. */
static int crop_picture(const struct cut *cut, const AVFrame *picture, AVFrame **ret_part,
                        struct cv_error *error)
{
    const struct clip_box *box = &cut->params->crop;
    const struct cv_media_info *info = cv_decoder_info(cut->decoder);
    AVFrame *part = av_frame_clone(picture);
    if (!part) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
    int right = info->width - box->x - box->width, below = info->height - box->y - box->height;
    part->crop_left = (size_t)av_rescale(box->x, picture->width, info->width);
    part->crop_right = (size_t)av_rescale(right, picture->width, info->width);
    part->crop_top = (size_t)av_rescale(box->y, picture->height, info->height);
    part->crop_bottom = (size_t)av_rescale(below, picture->height, info->height);
    if (av_frame_apply_cropping(part, AV_FRAME_CROP_UNALIGNED) < 0) {
        av_frame_free(&part);
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"crop\" does not fit a picture of %d×%d pixels", picture->width,
                       picture->height);
    }
    *ret_part = part;
    return 0;
}

static int write_picture(struct cut *cut, const struct cv_video_frame *frame,
                         struct cv_error *error)
{
    AVFrame *part = NULL;
    int result = is_cropped(cut) ? crop_picture(cut, frame->picture, &part, error) : 0;
    if (result == 0) {
        struct cv_video_frame shown = *frame;
        shown.picture = part ? part : frame->picture;
        result = cv_output_frame(cut->output, &shown, error);
    }
    av_frame_free(&part);
    return result;
}

static int write_frame(struct cut *cut, const struct cv_video_frame *frame, struct cv_error *error)
{
    if (cut->written == 0) {
        cut->first_us = frame->pts_us;
    }
    cut->last_us = frame->pts_us;
    cut->written++;
    return write_picture(cut, frame, error);
}

/* The picture from before the range, shown from its start until `until_us`. */
static int write_standing(struct cut *cut, int64_t until_us, struct cv_error *error)
{
    struct cv_video_frame frame = {
        .picture = cut->standing,
        .pts_us = cut->params->range.start_us,
        .duration_us = until_us - cut->params->range.start_us,
    };
    return write_frame(cut, &frame, error);
}

static int stand(struct cut *cut, const struct cv_video_frame *frame, struct cv_error *error)
{
    av_frame_free(&cut->standing);
    cut->standing = av_frame_clone(frame->picture);
    return cut->standing ? 0
                         : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
}

static int take_frame(struct cut *cut, const struct cv_video_frame *frame, struct cv_error *error)
{
    const struct cut_range *range = &cut->params->range;
    cut->end_of_frames_us = frame->pts_us + frame->duration_us;
    if (frame->pts_us < range->start_us) {
        return stand(cut, frame, error);
    }
    int result = 0;
    int64_t until_us = frame->pts_us < range->end_us ? frame->pts_us : range->end_us;
    if (cut->written == 0 && !cut->standing) {
        result = stand(cut, frame, error); /* the pictures start later than the sound */
    }
    if (result == 0 && cut->written == 0 && until_us - range->start_us >= CUT_STANDING_US) {
        result = write_standing(cut, until_us, error);
    }
    if (result != 0 || frame->pts_us >= range->end_us) {
        cut->frames_done = true;
        return result;
    }
    if (cut->params->progress) {
        double whole = (double)(range->end_us - range->start_us);
        cut->params->progress(cut->params->opaque,
                              (double)(frame->pts_us - range->start_us) / whole);
    }
    return write_frame(cut, frame, error);
}

static int take_sound(struct cut *cut, const struct cv_sound *sound, struct cv_error *error)
{
    const struct cut_range *range = &cut->params->range;
    int64_t start_us = sound->pts_us == AV_NOPTS_VALUE ? cut->end_of_sound_us : sound->pts_us;
    cut->end_of_sound_us = start_us + av_rescale(sound->samples->nb_samples, AV_TIME_BASE,
                                                 sound->samples->sample_rate);
    if (start_us >= range->end_us) {
        cut->sound_done = true;
        return 0;
    }
    return cut->end_of_sound_us > range->start_us ? cv_output_sound(cut->output, sound, error) : 0;
}

/* Until both frames and sound have passed the end of the range, or the source ends. */
static int copy_range(struct cut *cut, bool *ret_ended, struct cv_error *error)
{
    while (!cut->frames_done || !cut->sound_done) {
        struct cv_video_frame frame;
        struct cv_sound sound;
        int result = cv_decoder_next_any(cut->decoder, &frame, &sound, error);
        if (result == CV_DECODER_END) {
            *ret_ended = true;
            return 0;
        }
        if (result == CV_DECODER_SOUND) {
            result = take_sound(cut, &sound, error);
        } else if (result == CV_DECODER_FRAME && !cut->frames_done) {
            result = take_frame(cut, &frame, error);
        } else if (result == CV_DECODER_FRAME) {
            result = 0;
        }
        if (result != 0) {
            return result;
        }
    }
    *ret_ended = false;
    return 0;
}

/* The longest side that keeps the picture within the height that was asked for. */
static int longest_side(const struct cut *cut)
{
    int width = cut->source.width, height = cut->source.height;
    int64_t side = width > height ? width : height;
    int wanted = cut->params->max_height;
    if (wanted > 0 && height > wanted) {
        side = side * wanted / height;
    }
    side = side < CUT_LONG_SIDE_MAX ? side : CUT_LONG_SIDE_MAX;
    return side < 2 ? 2 : (int)side;
}

static int open_output(struct cut *cut, struct cv_error *error)
{
    const struct clip_box *box = &cut->params->crop;
    cut->source = *cv_decoder_info(cut->decoder);
    if (is_cropped(cut)) {
        if (box->x + box->width > cut->source.width || box->y + box->height > cut->source.height) {
            return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                           "payload: \"crop\" reaches over the edge of a picture of %d×%d pixels",
                           cut->source.width, cut->source.height);
        }
        cut->source.width = box->width;
        cut->source.height = box->height;
    }
    if (cut->params->mute) {
        cut->source.audio_codec[0] = '\0';
    }
    struct cv_output_params params = {
        .kind = CV_OUTPUT_MP4,
        .path = cut->params->path,
        .source = &cut->source,
        .threads = cut->params->threads,
        .max_side = longest_side(cut),
    };
    cut->sound_done = cut->source.audio_codec[0] == '\0';
    return cv_output_new(&params, &cut->output, error);
}

int cut_by_encoding(struct cv_decoder *decoder, const struct cut_params *params,
                    struct cut_report *ret_report, struct cv_error *error)
{
    const struct cut_range *range = &params->range;
    cv_auto(cut_deinit) struct cut cut = {.decoder = decoder, .params = params};
    int result = open_output(&cut, error);
    result = result ? result : cv_decoder_seek(decoder, range->start_us, error);
    bool ended = false;
    result = result ? result : copy_range(&cut, &ended, error);
    if (result != 0) {
        return result;
    }
    int64_t end_us =
        cut.end_of_sound_us > cut.end_of_frames_us ? cut.end_of_sound_us : cut.end_of_frames_us;
    struct cut_report report = {.source_end_us = ended ? end_us : INT64_MAX};
    if (cut.written == 0) {
        if (!cut.standing || range->start_us >= end_us) {
            *ret_report = report;
            return CUT_BEYOND_END;
        }
        int64_t until_us = end_us < range->end_us ? end_us : range->end_us;
        result = write_standing(&cut, until_us, error);
    }
    result = result ? result : cv_output_finish(cut.output, range->end_us, &report.summary, error);
    if (result != 0) {
        return result;
    }
    report.first_us = cut.first_us;
    report.last_us = cut.last_us;
    *ret_report = report;
    return CUT_DONE;
}
