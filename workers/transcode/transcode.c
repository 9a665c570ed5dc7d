#include "workers/transcode/transcode.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum {
    LONG_SIDE_MAX = 3840, /* H.264 level 5.1, what browsers decode in hardware */
    FRAME_RATE_MAX = 60,  /* Apple's authoring rules forbid more */
    POSTER_QUALITY = 85,
    POSTER_SIDE_MAX = 1280,
    JITTER_US = 3 * 1000, /* containers that count milliseconds round by one either way */
    ENCODE_TO_DECODE = 4, /* decoding is the lesser part; more threads for it cost CPU alone */
    MEAN_TO_SPREAD = 10,  /* intervals a tenth off the mean: a variable rate */
};

/* Intervals between the source's frames as they pass. */
struct rate_meter {
    int64_t frames, first_us, last_us, shortest_us, longest_us;
};

static void measure(struct rate_meter *meter, int64_t pts_us)
{
    if (meter->frames == 0) {
        meter->first_us = pts_us;
        meter->shortest_us = INT64_MAX;
    } else {
        int64_t interval = pts_us - meter->last_us;
        meter->shortest_us = interval < meter->shortest_us ? interval : meter->shortest_us;
        meter->longest_us = interval > meter->longest_us ? interval : meter->longest_us;
    }
    meter->last_us = pts_us;
    meter->frames++;
}

static void conclude(const struct rate_meter *meter, struct transcode_report *report)
{
    report->source_frames = meter->frames;
    report->frame_rate = 0;
    report->variable_frame_rate = false;
    if (meter->frames > 1) {
        double mean_us = (double)(meter->last_us - meter->first_us) / (double)(meter->frames - 1);
        report->frame_rate = round(1e6 / mean_us * 1000) / 1000;
        double spread_us = (double)(meter->longest_us - meter->shortest_us);
        report->variable_frame_rate = spread_us > fmax(mean_us / MEAN_TO_SPREAD, JITTER_US);
    }
}

static void report_progress(struct cv_stage_context *context, const struct cv_media_info *info,
                            int64_t pts_us)
{
    double whole = info->duration_us > 0 ? (double)info->duration_us : 0;
    cv_stage_progress(context, whole > 0 ? 0.95 * (double)pts_us / whole : 0, "encode");
}

/* Every frame and all the sound from the decoder into the output. */
static int convert(struct cv_stage_context *context, struct cv_decoder *decoder,
                   struct cv_output *output, struct transcode_report *report,
                   struct cv_error *error)
{
    struct rate_meter meter = {0};
    for (;;) {
        struct cv_video_frame frame;
        struct cv_sound sound;
        int result = cv_decoder_next_any(decoder, &frame, &sound, error);
        if (result == CV_DECODER_END) {
            break;
        }
        if (result == CV_DECODER_SOUND) {
            result = cv_output_sound(output, &sound, error);
        } else if (result == CV_DECODER_FRAME) {
            measure(&meter, frame.pts_us);
            report_progress(context, cv_decoder_info(decoder), frame.pts_us);
            result = cv_output_frame(output, &frame, error);
        }
        if (result != 0) {
            return result;
        }
    }
    conclude(&meter, report);
    report->info = *cv_decoder_info(decoder);
    report->damaged_frames = cv_decoder_damaged_frames(decoder);
    return cv_output_finish(output, INT64_MAX, &report->summary, error);
}

/* Decodes the original and writes the rendition's files; the poster in fresh memory. */
static int encode(struct cv_stage_context *context, const char *original, const char *directory,
                  struct transcode_report *report, void **ret_poster, size_t *ret_poster_size,
                  struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    int result = cv_stage_open_input(context, original, &reader, error);
    if (result != 0) {
        return result;
    }
    struct cv_byte_source source = cv_store_reader_source(reader);
    struct cv_decoder_params params = {
        .threads = 1 + cv_stage_threads(context) / ENCODE_TO_DECODE,
        .cancel = cv_stage_cancel(context),
        .sound = true,
    };
    cv_auto(cv_decoder_close) struct cv_decoder *decoder = NULL;
    result = cv_decoder_open(&source, &params, &decoder, error);
    if (result != 0) {
        return cv_fail_context(error, result, "%s", original);
    }
    struct cv_output_params output_params = {
        .kind = CV_OUTPUT_HLS,
        .path = directory,
        .source = cv_decoder_info(decoder),
        .threads = cv_stage_threads(context),
        .max_side = LONG_SIDE_MAX,
        .max_frame_rate = FRAME_RATE_MAX,
    };
    cv_auto(cv_output_free) struct cv_output *output = NULL;
    result = cv_output_new(&output_params, &output, error);
    result = result ? result : convert(context, decoder, output, report, error);
    if (result != 0) {
        return cv_fail_context(error, result, "%s", original);
    }
    return cv_output_poster(output, POSTER_QUALITY, POSTER_SIDE_MAX, ret_poster, ret_poster_size,
                            error);
}

static int to_json(const struct transcode_report *report, const char *video_id, json_t **ret_result,
                   struct cv_error *error)
{
    cv_auto_free char *playlist = NULL;
    cv_auto_free char *poster = NULL;
    int result = transcode_playlist_key(video_id, &playlist, error);
    result = result ? result : transcode_poster_key(video_id, &poster, error);
    if (result != 0) {
        return result;
    }
    const struct cv_media_info *info = &report->info;
    const struct cv_output_summary *summary = &report->summary;
    char resolution[32];
    (void)snprintf(resolution, sizeof(resolution), "%dx%d", info->width, info->height);
    bool sound = info->audio_codec[0] != '\0';
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:f, s:f, s:s, s:s, s:s, s:i, s:b, s:b, s:b, s:s?, s:o, s:o, s:I, s:I,"
        " s:{s:i, s:i, s:I, s:i}}",
        "s3_proxy_path", playlist, "s3_thumb_path", poster, "resolution", resolution, "fps",
        report->frame_rate, "duration", round((double)summary->duration_us / 1e3) / 1e3,
        "container", info->container, "video_codec", info->video_codec, "pixel_format",
        info->pixel_format, "rotation", info->rotation, "mirrored", info->mirrored,
        "variable_frame_rate", report->variable_frame_rate, "high_dynamic_range",
        info->high_dynamic_range, "audio_codec", sound ? info->audio_codec : NULL, "audio_channels",
        sound ? json_integer(info->audio_channels) : json_null(), "audio_sample_rate",
        sound ? json_integer(info->audio_sample_rate) : json_null(), "frames",
        (json_int_t)report->source_frames, "damaged_frames", (json_int_t)report->damaged_frames,
        "rendition", "width", summary->width, "height", summary->height, "frames",
        (json_int_t)summary->frames, "segments", summary->segments);
    if (!object) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the result");
    }
    *ret_result = object;
    return 0;
}

int transcode_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
                  struct cv_error *error)
{
    const char *video_id, *original;
    int result = cv_payload_uuid(payload, "video_id", &video_id, error);
    result = result ? result : cv_payload_object_key(payload, "s3_original_path", &original, error);
    cv_auto_free char *directory = NULL;
    result = result ? result : cv_format(&directory, error, "%s/hls", cv_stage_scratch(context));
    if (result != 0) {
        return result;
    }
    if (mkdir(directory, 0700) != 0) {
        return cv_fail_errno(error, errno, "cannot create %s", directory);
    }
    struct transcode_report report = {0};
    cv_auto_free void *poster = NULL;
    size_t poster_size = 0;
    result = encode(context, original, directory, &report, &poster, &poster_size, error);
    if (result != 0) {
        return result;
    }
    cv_stage_progress(context, 0.95, "publish");
    result = transcode_publish(context, video_id, directory, report.summary.segments, poster,
                               poster_size, error);
    return result ? result : to_json(&report, video_id, ret_result, error);
}
