#include "workers/clip_generate/clip.h"

#include "workers/clip_generate/cut/cut.h"
#include "workers/clip_generate/reel.h"
#include "workers/clip_generate/reencode.h"

enum { US_PER_MS = 1000 };

/* The part of the work that is done when the clip is cut and must only be stored. */
#define CUT_SHARE 0.95

/* The outcome of a request. */
struct outcome {
    struct cut_report report;
    int64_t copied, bytes_read;
    char
        reason[CV_CUT_REASON_SIZE]; /* why everything was encoded; "" if the request asked for it */
};

static int fail_beyond_end(const struct clip_request *request, int64_t end_us,
                           struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_OUTSIDE_VIDEO,
                   "the clip begins at %lld ms, and the video ends at %lld ms; choose a beginning "
                   "before the video's end",
                   (long long)request->t_start_ms, (long long)(end_us / US_PER_MS));
}

static void report_progress(void *opaque, double fraction)
{
    cv_stage_progress(opaque, CUT_SHARE * fraction, "cut");
}

/* ---- the original, with its bytes counted ---------------------------------------------------- */

struct counted {
    struct cv_byte_source inner;
    int64_t bytes;
};

static int read_counted(void *opaque, int64_t offset, void *data, size_t length, size_t *ret_read,
                        struct cv_error *error)
{
    struct counted *counted = opaque;
    int result = counted->inner.read(counted->inner.opaque, offset, data, length, ret_read, error);
    counted->bytes += result == 0 ? (int64_t)*ret_read : 0;
    return result;
}

/* ---- cutting --------------------------------------------------------------------------------- */

static enum cv_output_kind output_kind(enum clip_format format)
{
    switch (format) {
    case CLIP_WEBM:
        return CV_OUTPUT_WEBM;
    case CLIP_GIF:
        return CV_OUTPUT_GIF;
    default:
        return CV_OUTPUT_MP4;
    }
}

static int encode(struct cv_stage_context *context, struct clip_request *request,
                  const struct cv_byte_source *source, const char *path, struct cut_report *report,
                  struct cv_error *error)
{
    bool mute = request->mute || request->format == CLIP_GIF;
    cv_auto(cv_decoder_close) struct cv_decoder *decoder = NULL;
    CV_TRY(cut_open_source(source, cv_stage_threads(context), cv_stage_cancel(context), &decoder,
                           error));
    struct cut_params params = {
        .range = {clip_request_start_us(request), clip_request_end_us(request)},
        .kind = output_kind(request->format),
        .path = path,
        .crop = request->crop,
        .covers = &request->covers,
        .max_height = request->max_height,
        .mute = mute,
        .cancel = cv_stage_cancel(context),
        .threads = cv_stage_threads(context),
        .progress = report_progress,
        .opaque = context,
    };
    int result = cut_by_encoding(decoder, &params, report, error);
    return result == CUT_BEYOND_END ? fail_beyond_end(request, report->source_end_us, error)
                                    : result;
}

static int copy(struct cv_stage_context *context, const struct clip_request *request,
                const struct cv_byte_source *source, const char *path, struct outcome *outcome,
                struct cv_error *error)
{
    struct cv_cut_params params = {
        .start_us = clip_request_start_us(request),
        .end_us = clip_request_end_us(request),
        .max_side = CUT_LONG_SIDE_MAX,
        .max_height = request->max_height,
        .path = path,
        .sound = !request->mute,
        .threads = cv_stage_threads(context),
        .cancel = cv_stage_cancel(context),
        .progress = report_progress,
        .opaque = context,
    };
    struct cv_cut_report cut;
    int result = cv_cut(source, &params, &cut, error);
    if (result >= 0) {
        (void)snprintf(outcome->reason, sizeof(outcome->reason), "%s", cut.reason);
    }
    if (result == CV_CUT_DONE) {
        outcome->copied = cut.copied;
        outcome->report = (struct cut_report){
            .first_us = cut.first_us,
            .last_us = cut.last_us,
            .source_end_us = cut.source_end_us,
            .summary = cut.summary,
        };
    }
    return result;
}

static int cut(struct cv_stage_context *context, struct clip_request *request, const char *path,
               struct outcome *outcome, struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    CV_TRY(cv_stage_open_input(context, request->original, &reader, error));
    struct counted counted = {.inner = cv_store_reader_source(reader)};
    struct cv_byte_source source = {&counted, counted.inner.size, read_counted};
    int result = CV_CUT_REFUSED;
    bool whole = request->format == CLIP_MP4 && request->crop.width == 0 && !request->covers.wanted;
    if (request->mode == CLIP_SMART && whole) {
        result = copy(context, request, &source, path, outcome, error);
    }
    if (result == CV_CUT_REFUSED) {
        result = encode(context, request, &source, path, &outcome->report, error);
    }
    CV_TRY(result < 0 ? result : 0);
    outcome->bytes_read = counted.bytes;
    bool beyond = request->t_start_ms * US_PER_MS >= outcome->report.source_end_us;
    return beyond ? fail_beyond_end(request, outcome->report.source_end_us, error) : 0;
}

/* ---- the result ------------------------------------------------------------------------------ */

static int skipped_result(const struct clip_request *request, const struct cv_object_info *info,
                          json_t **ret_result, struct cv_error *error)
{
    json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:b}", "clip_path", request->key, "t_start",
                               (json_int_t)(clip_request_start_us(request) / US_PER_MS), "t_end",
                               (json_int_t)(clip_request_end_us(request) / US_PER_MS), "size",
                               (json_int_t)info->size, "skipped", true);
    CV_TRY_MEMORY(object, error, "the result");
    *ret_result = object;
    return 0;
}

static int cut_result(const struct clip_request *request, const struct outcome *outcome,
                      json_t **ret_result, struct cv_error *error)
{
    const struct cut_report *report = &outcome->report;
    int64_t end_us = clip_request_start_us(request) + report->summary.duration_us;
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:i, s:i, s:b, s:b}", "clip_path",
        request->key, "t_start", (json_int_t)(clip_request_start_us(request) / US_PER_MS), "t_end",
        (json_int_t)((end_us + US_PER_MS / 2) / US_PER_MS), "first_frame_us",
        (json_int_t)report->first_us, "last_frame_us", (json_int_t)report->last_us, "duration_us",
        (json_int_t)report->summary.duration_us, "frames", (json_int_t)report->summary.frames,
        "copied_frames", (json_int_t)outcome->copied, "mode",
        outcome->copied > 0 ? "smart" : "encode", "bytes_read", (json_int_t)outcome->bytes_read,
        "width", report->summary.width, "height", report->summary.height, "sound",
        report->summary.sound, "skipped", false);
    bool explains = outcome->copied == 0 && outcome->reason[0] != '\0';
    if (!object || (explains && json_object_set_new(object, "encoded_because",
                                                    json_string(outcome->reason)) != 0)) {
        json_decref(object);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the result");
    }
    *ret_result = object;
    return 0;
}

static int make_clip(struct cv_stage_context *context, struct clip_request *request,
                     json_t **ret_result, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    struct outcome outcome = {0};
    CV_TRY(cv_format(&path, error, "%s/clip", cv_stage_scratch(context)));
    CV_TRY(cut(context, request, path, &outcome, error));
    cv_stage_progress(context, CUT_SHARE, "publish");
    const struct cv_new_object clip = {.key = request->key, .path = path};
    CV_TRY(cv_stage_put(context, &clip, error));
    return cut_result(request, &outcome, ret_result, error);
}

static int make_still(struct cv_stage_context *context, struct clip_request *request,
                      json_t **ret_result, struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    CV_TRY(cv_stage_open_input(context, request->original, &reader, error));
    struct counted counted = {.inner = cv_store_reader_source(reader)};
    struct cv_byte_source source = {&counted, counted.inner.size, read_counted};
    cv_auto(cv_decoder_close) struct cv_decoder *decoder = NULL;
    int result = cut_open_source(&source, cv_stage_threads(context), cv_stage_cancel(context),
                                 &decoder, error);
    cv_auto_free void *data = NULL;
    size_t size = 0;
    struct still_report report;
    result = result ? result
                    : still_make(decoder, request->t_start_ms * US_PER_MS, request,
                                 cv_stage_scratch(context), &data, &size, &report, error);
    CV_TRY(result);
    if (request->t_start_ms * US_PER_MS >= report.source_end_us) {
        return fail_beyond_end(request, report.source_end_us, error);
    }
    const struct cv_new_object still = {
        .key = request->key,
        .data = data,
        .size = size,
    };
    result = cv_stage_put(context, &still, error);
    json_t *object = result
                         ? NULL
                         : json_pack("{s:s, s:I, s:I, s:I, s:I, s:b}", "clip_path", request->key,
                                     "t_start", (json_int_t)request->t_start_ms, "first_frame_us",
                                     (json_int_t)report.time_us, "size", (json_int_t)size,
                                     "bytes_read", (json_int_t)counted.bytes, "skipped", false);
    if (result == 0 && !object) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the result");
    }
    *ret_result = object;
    return result;
}

int clip_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
             struct cv_error *error)
{
    cv_auto(clip_request_deinit) struct clip_request request = {0};
    CV_TRY(clip_request_read(payload, &request, error));
    struct cv_object_info info;
    int result = cv_store_head(cv_stage_store(context), request.key, &info, error);
    if (result <= 0) {
        return result < 0 ? result : skipped_result(&request, &info, ret_result, error);
    }
    /* Where fontconfig may keep its list of fonts, as long as there is but one thread. */
    CV_TRY_ERRNO(setenv("XDG_CACHE_HOME", cv_stage_scratch(context), 1) == 0, error,
                 "cannot set a variable");
    if (request.parts) {
        return reel_make(context, &request, ret_result, error);
    }
    CV_TRY(clip_covers_read_looks(&request.covers, cv_stage_store(context), error));
    return request.format == CLIP_JPG ? make_still(context, &request, ret_result, error)
                                      : make_clip(context, &request, ret_result, error);
}
