#include "workers/clip_generate/reencode.h"

#include <libavutil/mathematics.h>

/* ---- the shown part of a picture ------------------------------------------------------------- */

enum { SIDE_MIN = 2 }; /* of anything that is encoded */

/* The size of the shown part. CV_ERROR_OUTSIDE_VIDEO when the box reaches over the picture's
 * edge. */
static int picture_size(const struct clip_box *box, const struct cv_media_info *info,
                        int *ret_width, int *ret_height, struct cv_error *error)
{
    bool whole = box->width == 0;
    if (!whole && (box->x + box->width > info->width || box->y + box->height > info->height)) {
        return cv_fail(error, CV_ERROR_OUTSIDE_VIDEO,
                       "the crop reaches over the edge of a picture of %dx%d pixels; choose one "
                       "inside of the picture",
                       info->width, info->height);
    }
    *ret_width = whole ? info->width : box->width;
    *ret_height = whole ? info->height : box->height;
    return 0;
}

/* That part of a picture, or all of it, with its covers. If the picture's size has changed in
 * mid-stream, the same part in proportion. av_frame_free the result. */
static int picture_part(const struct clip_box *box, struct clip_covers *covers,
                        const struct cv_media_info *info, int64_t pts_us, const AVFrame *picture,
                        AVFrame **ret_part, struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *part = av_frame_clone(picture);
    CV_TRY_MEMORY(part, error, "a picture");
    CV_TRY(clip_covers_draw(covers, info, pts_us, &part, error));
    if (box->width > 0) {
        int right = info->width - box->x - box->width, below = info->height - box->y - box->height;
        part->crop_left = (size_t)av_rescale(box->x, picture->width, info->width);
        part->crop_right = (size_t)av_rescale(right, picture->width, info->width);
        part->crop_top = (size_t)av_rescale(box->y, picture->height, info->height);
        part->crop_bottom = (size_t)av_rescale(below, picture->height, info->height);
        if (av_frame_apply_cropping(part, AV_FRAME_CROP_UNALIGNED) < 0) {
            return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                           "payload: \"crop\" does not fit a picture of %d×%d pixels",
                           picture->width, picture->height);
        }
    }
    *ret_part = cv_take(part);
    return 0;
}

/* The longest side that keeps a picture within `max_height` (0: no bound), and never above
 * `max_side`. */
static int picture_longest_side(int width, int height, int max_height, int max_side)
{
    int64_t side = width > height ? width : height;
    if (max_height > 0 && height > max_height) {
        side = side * max_height / height;
    }
    side = side < max_side ? side : max_side;
    return side < SIDE_MIN ? SIDE_MIN : (int)side;
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* How much later than a picture the sound of the same time may lie in a file, µs. */
enum { SOUND_BEHIND_US = 10 * 1000 * 1000 };

struct cut {
    struct cv_decoder *decoder;
    struct cv_media_info source; /* the source as the output gets it: cropped, muted */
    struct cv_output *output;
    const struct cut_params *params;
    int64_t end_of_frames_us, end_of_sound_us; /* of the source as far as it was read */
    int64_t first_us, last_us;
    bool has_frame, frames_done, sound_done;
};

static void cut_deinit(struct cut *cut)
{
    if (!cut->params->output) {
        cv_output_free(cut->output);
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct cut, cut_deinit)

static int write_frame(struct cut *cut, const struct cv_video_frame *frame, struct cv_error *error)
{
    struct cv_video_frame shown = *frame;
    cv_auto(cv_av_frame_free) AVFrame *part = NULL;
    int64_t after_us = frame->pts_us - cut->params->range.start_us;
    shown.pts_us = cut->params->at_us + (after_us > 0 ? after_us : 0);
    CV_TRY(picture_part(&cut->params->crop, cut->params->covers, cv_decoder_info(cut->decoder),
                        frame->pts_us, frame->picture, &part, error));
    shown.picture = part;
    return cv_output_frame(cut->output, &shown, error);
}

static int encode_frame(struct cut *cut, const struct cv_video_frame *frame, struct cv_error *error)
{
    const struct cut_range *range = &cut->params->range;
    cut->end_of_frames_us = frame->pts_us + frame->duration_us;
    cut->frames_done = frame->pts_us >= range->end_us;
    cut->sound_done = cut->sound_done || frame->pts_us - SOUND_BEHIND_US >= range->end_us;
    if (cut->frames_done && cut->has_frame) {
        return 0;
    }
    if (!cut->has_frame || frame->pts_us <= range->start_us) {
        cut->first_us = frame->pts_us; /* what the source shows at the start */
    }
    cut->last_us = frame->pts_us;
    cut->has_frame = true;
    if (cut->params->progress && frame->pts_us > range->start_us) {
        double whole = (double)(range->end_us - range->start_us);
        cut->params->progress(cut->params->opaque,
                              (double)(frame->pts_us - range->start_us) / whole);
    }
    return write_frame(cut, frame, error);
}

/* When a block of sound starts and ends, if the one before it ended at `after_us`. */
static struct cut_range range_of_sound(const struct cv_sound *sound, int64_t after_us)
{
    int64_t start_us = sound->pts_us == AV_NOPTS_VALUE ? after_us : sound->pts_us;
    int64_t lasts_us =
        av_rescale(sound->samples->nb_samples, AV_TIME_BASE, sound->samples->sample_rate);
    return (struct cut_range){start_us, start_us + lasts_us};
}

/* Sound of before the start is dropped by the output; that of after the end is dropped here if
 * something follows. */
static int write_sound(struct cut *cut, const struct cv_sound *sound, const struct cut_range *heard,
                       struct cv_error *error)
{
    const struct cut_range *range = &cut->params->range;
    cv_auto(cv_av_frame_free) AVFrame *samples = av_frame_clone(sound->samples);
    struct cv_sound shifted = *sound;
    CV_TRY_MEMORY(samples, error, "sound");
    if (cut->params->output && heard->end_us > range->end_us) {
        samples->nb_samples =
            (int)av_rescale(range->end_us - heard->start_us, samples->sample_rate, AV_TIME_BASE);
    }
    shifted.samples = samples;
    if (sound->pts_us != AV_NOPTS_VALUE) {
        shifted.pts_us = sound->pts_us - range->start_us + cut->params->at_us;
    }
    return samples->nb_samples > 0 ? cv_output_sound(cut->output, &shifted, error) : 0;
}

static int encode_sound(struct cut *cut, const struct cv_sound *sound, struct cv_error *error)
{
    const struct cut_range *range = &cut->params->range;
    struct cut_range heard = range_of_sound(sound, cut->end_of_sound_us);
    cut->end_of_sound_us = heard.end_us;
    cut->sound_done = heard.start_us >= range->end_us;
    bool wanted = !cut->params->mute && !cut->sound_done && heard.end_us > range->start_us;
    return wanted ? write_sound(cut, sound, &heard, error) : 0;
}

/* Copies until both frames and sound have passed the end of the range, or the source ends. */
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
            result = encode_sound(cut, &sound, error);
        } else if (result == CV_DECODER_FRAME) {
            result = encode_frame(cut, &frame, error);
        }
        if (result != 0) {
            return result;
        }
    }
    *ret_ended = false;
    return 0;
}

enum {
    GIF_SIDE_MAX =
        640, /* pixels; a GIF keeps nearly whole pictures, so larger ones should be videos */
    GIF_RATE_MAX = 25, /* pictures per second; browsers slow down more than 50 */
};

static int open_output(struct cut *cut, struct cv_error *error)
{
    cut->source = *cv_decoder_info(cut->decoder);
    CV_TRY(picture_size(&cut->params->crop, cv_decoder_info(cut->decoder), &cut->source.width,
                        &cut->source.height, error));
    bool gif = cut->params->kind == CV_OUTPUT_GIF;
    int side_max = gif && cut->params->max_height == 0 ? GIF_SIDE_MAX : CUT_LONG_SIDE_MAX;
    cut->sound_done = cut->source.audio_codec[0] == '\0';
    if (cut->params->output) {
        cut->output = cut->params->output;
        return cv_output_silence(cut->output, cut->params->at_us, error);
    }
    if (cut->params->mute) {
        cut->source.audio_codec[0] = '\0';
    }
    struct cv_output_params params = {
        .kind = cut->params->kind,
        .path = cut->params->path,
        .source = &cut->source,
        .cancel = cut->params->cancel,
        .threads = cut->params->threads,
        .max_frame_rate = gif ? GIF_RATE_MAX : 0,
        .max_side = picture_longest_side(cut->source.width, cut->source.height,
                                         cut->params->max_height, side_max),
    };
    return cv_output_new(&params, &cut->output, error);
}

int cut_open_source(const struct cv_byte_source *source, int threads, struct cv_cancel *cancel,
                    struct cv_decoder **ret_decoder, struct cv_error *error)
{
    const struct cv_decoder_params params = {
        .threads = threads, .cancel = cancel, .sound = true, .whole = true, .square = true};
    return cv_decoder_open(source, &params, ret_decoder, error);
}

int cut_by_encoding(struct cv_decoder *decoder, const struct cut_params *params,
                    struct cut_report *ret_report, struct cv_error *error)
{
    const struct cut_range *range = &params->range;
    cv_auto(cut_deinit) struct cut cut = {.decoder = decoder, .params = params};
    CV_TRY(open_output(&cut, error));
    CV_TRY(cv_decoder_seek(decoder, range->start_us, error));
    bool ended = false;
    CV_TRY(copy_range(&cut, &ended, error));
    int64_t read_us =
        cut.end_of_sound_us > cut.end_of_frames_us ? cut.end_of_sound_us : cut.end_of_frames_us;
    struct cut_report report = {.source_end_us = ended ? read_us : INT64_MAX};
    if (!cut.has_frame || range->start_us >= report.source_end_us) {
        *ret_report = report;
        return CUT_BEYOND_END;
    }
    int64_t end_us = report.source_end_us < range->end_us ? report.source_end_us : range->end_us;
    report.summary.duration_us = end_us - range->start_us;
    if (!params->output) {
        CV_TRY(cv_output_finish(cut.output, report.summary.duration_us, &report.summary, error));
    }
    report.first_us = cut.first_us;
    report.last_us = cut.last_us;
    *ret_report = report;
    return CUT_DONE;
}

/* ---- one moment as a picture ----------------------------------------------------------------- */

enum {
    QUALITY = 92,         /* text stays readable when it is enlarged */
    SIDE_MAX_JPEG = 16384 /* pixels; the largest side that is decoded */
};

/* Writes the source of a quoted line below the picture, which is replaced. */
static int write_quote(const json_t *texts, const char *scratch, AVFrame **picture,
                       struct cv_error *error)
{
    const char *lines[CLIP_QUOTE_LINES_MAX];
    cv_auto_free char *path = NULL;
    AVFrame *quoted = NULL;
    struct cv_caption caption = {.lines = lines, .count = json_array_size(texts), .below = true};
    for (size_t i = 0; i < caption.count; i++) {
        lines[i] = json_string_value(json_array_get(texts, i));
    }
    CV_TRY(cv_format(&path, error, "%s/quote", scratch));
    caption.path = path;
    CV_TRY(cv_picture_caption(*picture, &caption, &quoted, error));
    av_frame_free(picture);
    *picture = quoted;
    return 0;
}

static int make_jpeg(const struct cv_decoder *decoder, struct clip_request *request,
                     const char *scratch, int64_t pts_us, const AVFrame *picture, void **ret_data,
                     size_t *ret_size, struct cv_error *error)
{
    const struct cv_media_info *info = cv_decoder_info(decoder);
    cv_auto(cv_av_frame_free) AVFrame *part = NULL;
    CV_TRY(picture_part(&request->crop, &request->covers, info, pts_us, picture, &part, error));
    CV_TRY(request->quote ? write_quote(request->quote, scratch, &part, error) : 0);
    int side = picture_longest_side(part->width, part->height, request->max_height, SIDE_MAX_JPEG);
    return cv_picture_jpeg(part, QUALITY, side, ret_data, ret_size, error);
}

/* Reads until a picture after the moment, or to the end of the source, and keeps the picture that is
 * shown at the moment; av_frame_free it. */
static int read_still(struct cv_decoder *decoder, int64_t moment_us, AVFrame **ret_standing,
                      struct still_report *report, struct cv_error *error)
{
    struct cut_range heard = {0};
    int64_t end_of_frames_us = 0;
    for (;;) {
        struct cv_video_frame frame;
        struct cv_sound sound;
        int result = cv_decoder_next_any(decoder, &frame, &sound, error);
        if (result == CV_DECODER_SOUND) {
            heard = range_of_sound(&sound, heard.end_us);
            continue;
        }
        bool is_after = result == CV_DECODER_FRAME && *ret_standing && frame.pts_us > moment_us;
        if (result < 0 || result == CV_DECODER_END || is_after) {
            int64_t end_us = heard.end_us > end_of_frames_us ? heard.end_us : end_of_frames_us;
            report->source_end_us = is_after ? INT64_MAX : end_us;
            return result < 0 ? result : 0;
        }
        av_frame_free(ret_standing);
        *ret_standing = av_frame_clone(frame.picture);
        CV_TRY_MEMORY(*ret_standing, error, "a picture");
        report->time_us = frame.pts_us;
        end_of_frames_us = frame.pts_us + frame.duration_us;
    }
}

int still_make(struct cv_decoder *decoder, int64_t moment_us, struct clip_request *request,
               const char *scratch, void **ret_data, size_t *ret_size,
               struct still_report *ret_report, struct cv_error *error)
{
    int width, height;
    CV_TRY(picture_size(&request->crop, cv_decoder_info(decoder), &width, &height, error));
    CV_TRY(cv_decoder_seek(decoder, moment_us, error));
    cv_auto(cv_av_frame_free) AVFrame *standing = NULL;
    struct still_report report = {0};
    CV_TRY(read_still(decoder, moment_us, &standing, &report, error));
    if (!standing) {
        return cv_fail(error, CV_ERROR_DECODE, "no picture could be decoded");
    }
    CV_TRY(
        make_jpeg(decoder, request, scratch, report.time_us, standing, ret_data, ret_size, error));
    *ret_report = report;
    return 0;
}
