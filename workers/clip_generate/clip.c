#include "workers/clip_generate/clip.h"

#include "workers/clip_generate/cut.h"

#include <inttypes.h>

enum {
    TIME_MAX_MS = INT32_MAX,        /* what the segments' columns hold: 24 days */
    LENGTH_MAX_MS = 60 * 60 * 1000, /* a clip, not a copy: an hour is encoded in good time */
    PADDING_MS = 2000,
    PADDING_MAX_MS = 60 * 1000,
    US_PER_MS = 1000,
};

struct clip_request {
    const char *video_id, *clip_id, *original;
    int64_t t_start_ms, t_end_ms, padding_ms;
    char *key;
};

static void clip_request_deinit(struct clip_request *request)
{
    free(request->key);
}
CV_DEFINE_CLEANUP_ADDRESS(struct clip_request, clip_request_deinit)

static int read_request(const json_t *payload, struct clip_request *request, struct cv_error *error)
{
    int result = cv_payload_uuid(payload, "video_id", &request->video_id, error);
    result = result ? result : cv_payload_uuid(payload, "clip_id", &request->clip_id, error);
    result = result ? result
                    : cv_payload_object_key(payload, "s3_original_path", &request->original, error);
    result = result
                 ? result
                 : cv_payload_int(payload, "t_start", 0, TIME_MAX_MS, &request->t_start_ms, error);
    result = result ? result
                    : cv_payload_int(payload, "t_end", 0, TIME_MAX_MS, &request->t_end_ms, error);
    result = result ? result
                    : cv_payload_int_or(payload, "padding_ms", PADDING_MS, 0, PADDING_MAX_MS,
                                        &request->padding_ms, error);
    if (result != 0) {
        return result;
    }
    if (request->t_end_ms <= request->t_start_ms) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"t_end\" (%" PRId64 " ms) must be after \"t_start\" (%" PRId64
                       " ms)",
                       request->t_end_ms, request->t_start_ms);
    }
    if (request->t_end_ms - request->t_start_ms > LENGTH_MAX_MS) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: a clip of %" PRId64 " ms is longer than the limit of %d ms",
                       request->t_end_ms - request->t_start_ms, LENGTH_MAX_MS);
    }
    return cv_format(&request->key, error, "videos/clips/%s/%s.mp4", request->video_id,
                     request->clip_id);
}

static struct cut_range padded_range(const struct clip_request *request)
{
    int64_t start_ms = request->t_start_ms - request->padding_ms;
    return (struct cut_range){
        .start_us = (start_ms > 0 ? start_ms : 0) * US_PER_MS,
        .end_us = (request->t_end_ms + request->padding_ms) * US_PER_MS,
    };
}

static int fail_beyond_end(const struct clip_request *request, int64_t end_us,
                           struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                   "payload: \"t_start\" (%" PRId64 " ms) is not before the video's end (%" PRId64
                   " ms)",
                   request->t_start_ms, end_us / US_PER_MS);
}

static void report_progress(void *opaque, double fraction)
{
    cv_stage_progress(opaque, 0.95 * fraction, "cut");
}

static int cut(struct cv_stage_context *context, const struct clip_request *request,
               const char *path, struct cut_report *ret_report, struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    int result = cv_stage_open_input(context, request->original, &reader, error);
    if (result != 0) {
        return result;
    }
    struct cv_byte_source source = cv_store_reader_source(reader);
    struct cv_decoder_params decoder_params = {
        .threads = cv_stage_threads(context),
        .cancel = cv_stage_cancel(context),
        .sound = true,
    };
    cv_auto(cv_decoder_close) struct cv_decoder *decoder = NULL;
    result = cv_decoder_open(&source, &decoder_params, &decoder, error);
    if (result != 0) {
        return cv_fail_context(error, result, "%s", request->original);
    }
    struct cut_params params = {
        .range = padded_range(request),
        .path = path,
        .threads = cv_stage_threads(context),
        .progress = report_progress,
        .opaque = context,
    };
    struct cut_report report = {0};
    result = cut_by_encoding(decoder, &params, &report, error);
    if (result < 0) {
        return cv_fail_context(error, result, "%s", request->original);
    }
    if (result == CUT_BEYOND_END || request->t_start_ms * US_PER_MS >= report.source_end_us) {
        return fail_beyond_end(request, report.source_end_us, error);
    }
    *ret_report = report;
    return 0;
}

static int skipped_result(const struct clip_request *request, const struct cv_object_info *info,
                          json_t **ret_result, struct cv_error *error)
{
    struct cut_range range = padded_range(request);
    json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:b}", "clip_path", request->key, "t_start",
                               (json_int_t)(range.start_us / US_PER_MS), "t_end",
                               (json_int_t)(range.end_us / US_PER_MS), "size",
                               (json_int_t)info->size, "skipped", true);
    if (!object) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the result");
    }
    *ret_result = object;
    return 0;
}

static int cut_result(const struct clip_request *request, const struct cut_report *report,
                      json_t **ret_result, struct cv_error *error)
{
    int64_t start_us = padded_range(request).start_us;
    int64_t end_us = report->first_us + report->summary.duration_us;
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:b, s:b}", "clip_path",
                  request->key, "t_start", (json_int_t)(start_us / US_PER_MS), "t_end",
                  (json_int_t)((end_us + US_PER_MS / 2) / US_PER_MS), "first_frame_us",
                  (json_int_t)report->first_us, "last_frame_us", (json_int_t)report->last_us,
                  "duration_us", (json_int_t)report->summary.duration_us, "frames",
                  (json_int_t)report->summary.frames, "width", report->summary.width, "height",
                  report->summary.height, "sound", report->summary.sound, "skipped", false);
    if (!object) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the result");
    }
    *ret_result = object;
    return 0;
}

int clip_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
             struct cv_error *error)
{
    cv_auto(clip_request_deinit) struct clip_request request = {0};
    int result = read_request(payload, &request, error);
    if (result != 0) {
        return result;
    }
    struct cv_object_info info;
    result = cv_store_head(cv_stage_store(context), request.key, &info, error);
    if (result <= 0) {
        return result < 0 ? result : skipped_result(&request, &info, ret_result, error);
    }
    cv_auto_free char *path = NULL;
    struct cut_report report = {0};
    result = cv_format(&path, error, "%s/clip.mp4", cv_stage_scratch(context));
    result = result ? result : cut(context, &request, path, &report, error);
    if (result != 0) {
        return result;
    }
    cv_stage_progress(context, 0.95, "publish");
    result = cv_stage_put_file(context, request.key, path, "video/mp4", error);
    return result ? result : cut_result(&request, &report, ret_result, error);
}

/* A clip lives in the object store alone; its path is in the job's result. */
int clip_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                struct cv_error *error)
{
    (void)db, (void)job, (void)result, (void)error;
    return 0;
}
