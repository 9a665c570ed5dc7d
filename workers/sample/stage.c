#include "workers/sample/stage.h"

#include "common/media/media.h"
#include "common/said/said.h"

#include "workers/sample/output.h"
#include "workers/sample/sampler.h"

#include <inttypes.h>
#include <string.h>

static const double TARGET_FPS = 10, TARGET_FPS_LOW = 0.1, TARGET_FPS_HIGH = 60;
static const double DEDUPE_THRESHOLD = 0.95;

/* Shares of the longest part (part_seconds). The first part is short, so that its text is found soon; each one after it is
 * as long as all before it together. */
enum {
    FIRST_PART_SHARE = 40, /* 15 seconds by default */
    WHOLE_SHARE = 5,       /* a shorter video stays whole: two minutes by default */
    PART_SECONDS_MAX = 24 * 60 * 60,
};

struct job {
    const char *video_id;
    const char *original;
    int64_t part_ms; /* the longest part; 0: the video is looked at in one */
    int64_t from_ms; /* where this part begins, at a key frame */
    struct sampler_params params;
};

static int read_part(const json_t *payload, struct job *job, struct cv_error *error)
{
    int64_t seconds = 0;
    CV_TRY(cv_payload_int_or(payload, "part_seconds", 0, 0, PART_SECONDS_MAX, &seconds, error));
    job->part_ms = seconds * 1000;
    return cv_payload_int_or(payload, "from_ms", 0, 0, INT32_MAX, &job->from_ms, error);
}

static int read_payload(const json_t *payload, struct job *ret_job, struct cv_error *error)
{
    CV_TRY(cv_payload_uuid(payload, "video_id", &ret_job->video_id, error));
    CV_TRY(cv_payload_object_key(payload, "s3_original_path", &ret_job->original, error));
    CV_TRY(cv_payload_double_or(payload, "target_fps", TARGET_FPS, TARGET_FPS_LOW, TARGET_FPS_HIGH,
                                &ret_job->params.target_fps, error));
    CV_TRY(cv_payload_double_or(payload, "dedupe_threshold", DEDUPE_THRESHOLD, 0, 1,
                                &ret_job->params.dedupe_threshold, error));
    return read_part(payload, ret_job, error);
}

/* A text that begins in a film is late by at most so much, or one picture: one of 24 a second, two of 60. */
enum { LATE_MAX_US = 42 * 1000 };

struct totals {
    int64_t source_frames;
    int64_t interval_us; /* from frame to frame where none is left out */
    bool lasts_too_long; /* more would be left out: none is any more */
    int64_t end_us;      /* of the last frame */
    bool is_last;        /* the video ends there */
};

/* Counts a frame, and where a film is seen those that were left out after it. */
static void count_source_frames(struct totals *totals, const struct cv_video_frame *frame,
                                bool sees_film)
{
    if (!sees_film || totals->interval_us == 0) {
        totals->interval_us = frame->duration_us;
    }
    int64_t intervals = (frame->duration_us + totals->interval_us / 2) / totals->interval_us;
    totals->source_frames += intervals > 1 ? intervals : 1;
    totals->lasts_too_long |=
        intervals > 2 && frame->duration_us > totals->interval_us + LATE_MAX_US;
    totals->end_us = frame->pts_us + frame->duration_us;
}

/* The time from which this part may end. It ends at a key frame, because the next part is
 * decoded from there. INT64_MAX: it goes to the end of the video, because that is near or not
 * known. */
static int64_t earliest_end(const struct job *job, const struct cv_media_info *info)
{
    int64_t least = job->part_ms / FIRST_PART_SHARE;
    int64_t length = job->from_ms > least ? job->from_ms : least;
    int64_t end_ms = job->from_ms + (length < job->part_ms ? length : job->part_ms);
    int64_t duration_ms = output_ms(info->duration_us);
    bool is_cut = job->part_ms > 0 && cv_can_seek(info) &&
                  duration_ms >= job->part_ms / WHOLE_SHARE && end_ms + least <= duration_ms;
    return is_cut ? end_ms : INT64_MAX;
}

/* Decodes the first picture at a time, or else the first one after it. The part before this one ended at a key frame, whose
 * time was rounded. If the file has no index, or the index is wrong, decodes from the beginning. */
static int decode_from(struct cv_decoder *decoder, int64_t time_ms,
                       struct cv_video_frame *ret_frame, struct cv_error *error)
{
    int64_t first_us = time_ms * 1000 - 500, last_us = time_ms > 0 ? time_ms * 1000 + 499 : 0;
    bool can_seek = time_ms > 0 && cv_can_seek(cv_decoder_info(decoder));
    int result = 0;
    for (int i = can_seek ? 0 : 1; i < 2; i++) {
        result = cv_decoder_seek(decoder, i == 0 ? last_us : 0, error);
        while (result == 0 && (result = cv_decoder_next(decoder, ret_frame, error)) == 0) {
            if (ret_frame->pts_us >= first_us && (ret_frame->pts_us <= last_us || i == 1)) {
                return 0;
            }
            if (ret_frame->pts_us > last_us) {
                break;
            }
        }
        if (result < 0) {
            return result;
        }
    }
    return result;
}

static int sample_frames(struct cv_stage_context *context, struct cv_decoder *decoder,
                         const struct job *job, struct sampler *sampler, struct totals *totals,
                         struct cv_error *error)
{
    int64_t duration_us = cv_decoder_info(decoder)->duration_us;
    int64_t end_ms = earliest_end(job, cv_decoder_info(decoder));
    struct cv_video_frame frame;
    int result = decode_from(decoder, job->from_ms, &frame, error);
    for (; result == 0; result = cv_decoder_next(decoder, &frame, error)) {
        if (frame.key_frame && output_ms(frame.pts_us) >= end_ms) {
            totals->end_us = frame.pts_us;
            return sampler_finish(sampler, error);
        }
        CV_TRY(sampler_push(sampler, frame.picture, frame.pts_us, error));
        count_source_frames(totals, &frame, sampler_sees_film(sampler));
        cv_decoder_leave_out(decoder, sampler_sees_film(sampler) && !totals->lasts_too_long);
        if (duration_us > 0) {
            cv_stage_progress(context, (double)frame.pts_us / (double)duration_us, "sample");
        }
    }
    totals->is_last = result == CV_DECODER_END;
    return totals->is_last ? sampler_finish(sampler, error) : result;
}

static int sample_all(struct cv_stage_context *context, struct cv_decoder *decoder,
                      const struct job *job, struct output *output, struct totals *totals,
                      struct cv_error *error)
{
    cv_auto(sampler_free) struct sampler *sampler = NULL;
    CV_TRY(sampler_new(&job->params, output_keep, output, &sampler, error));
    CV_TRY(sample_frames(context, decoder, job, sampler, totals, error));
    return output_finish(output, totals->end_us, totals->is_last, error);
}

static int run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
               struct cv_error *error)
{
    struct job job;
    CV_TRY(read_payload(payload, &job, error));
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    CV_TRY(cv_stage_open_input(context, job.original, &reader, error));
    struct cv_byte_source source = cv_store_reader_source(reader);
    cv_auto(cv_subtitle_list_deinit) struct cv_subtitle_list subtitles = {0};
    cv_auto(output_deinit) struct output output;
    CV_TRY(output_init(&output, context, job.video_id, job.from_ms, error));
    struct cv_decoder_params params = {.threads = cv_stage_threads(context),
                                       .cancel = cv_stage_cancel(context),
                                       .sound_times = true,
                                       .subtitles = &subtitles,
                                       .subtitle_pictures = &output.subtitles,
                                       .whole = true,
                                       .square = true};
    cv_auto(cv_decoder_close) struct cv_decoder *decoder = NULL;
    CV_TRY(cv_decoder_open(&source, &params, &decoder, error));
    output.duration_ms = output_ms(cv_decoder_info(decoder)->duration_us);
    struct totals totals = {0};
    int result = sample_all(context, decoder, &job, &output, &totals, error);
    if (result != 0) {
        output_discard(&output);
        return result;
    }
    cv_auto(json_decref) json_t *said = NULL;
    CV_TRY(cv_subtitles_finish(&subtitles, error));
    CV_TRY(cv_said_describe(&subtitles, &said, error));
    const struct cv_media_info *info = cv_decoder_info(decoder);
    int64_t end_ms = output_ms(totals.end_us);
    int64_t whole_us =
        totals.is_last ? cv_presentation_us(info, totals.end_us, cv_decoder_sound_end_us(decoder))
                       : info->duration_us;
    *ret_result = json_pack("{s:s,s:O,s:O,s:O,s:i,s:i,s:I,s:I,s:I,s:o*,s:o*}", "video_id",
                            job.video_id, "frames", output.frames, "subtitles", said, "frame_paths",
                            output.lists, "width", info->width, "height", info->height,
                            "duration_ms", (json_int_t)output_ms(whole_us), "source_frames",
                            (json_int_t)totals.source_frames, "damaged_frames",
                            (json_int_t)cv_decoder_damaged_frames(decoder), "goes_on_ms",
                            totals.is_last ? NULL : json_integer(end_ms), "truncated",
                            totals.is_last ? json_boolean(cv_decoder_is_cut_off(decoder)) : NULL);
    CV_TRY_MEMORY(*ret_result, error, "the result");
    return 0;
}

/* ---- commit ---------------------------------------------------------------------------------- */

static int protocol_error(struct cv_error *error, size_t index, const char *what)
{
    return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "frame %zu of the result has no usable %s",
                   index, what);
}

/* One frame of the result as a row of kept_frames. */
static int make_row(const json_t *frame, size_t index, const char *video_id, json_t *rows,
                    struct cv_error *error)
{
    static const char *const names[] = {"timestamp_ms", "t_start", "t_end"};
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        const json_t *time = json_object_get(frame, names[i]);
        if (!json_is_integer(time) || json_integer_value(time) < 0) {
            return protocol_error(error, index, names[i]);
        }
    }
    cv_auto_free char *key = NULL;
    json_t *time = json_object_get(frame, "timestamp_ms");
    CV_TRY(output_key(video_id, json_integer_value(time), &key, error));
    json_t *row =
        json_pack("{s:s, s:O, s:O, s:O}", "key", key, "t_ms", time, "t_start",
                  json_object_get(frame, "t_start"), "t_end", json_object_get(frame, "t_end"));
    CV_TRY_MEMORY(json_array_append_new(rows, row) == 0, error, "a list of frames");
    return 0;
}

/* A member of the job's own payload, else the default; without one, the next stage's own. */
static int pass_on(const json_t *payload, const char *name, json_t *fallback, json_t *target,
                   struct cv_error *error)
{
    cv_auto(json_decref) json_t *other = fallback;
    json_t *given = json_object_get(payload, name);
    if (!given && !other) {
        return 0;
    }
    CV_TRY_MEMORY(json_object_set(target, name, given ? given : other) == 0, error, "the OCR job");
    return 0;
}

/* The frames in place of those that an earlier run kept, from the beginning of this part on. */
static int record_frames(struct cv_db *db, const char *video_id, int64_t from_ms,
                         const json_t *list, struct cv_error *error)
{
    static const char *const clear =
        "DELETE FROM kept_frames WHERE video_id = $1::uuid AND t_start >= $2::bigint";
    static const char *const insert =
        "INSERT INTO kept_frames (video_id, t_ms, t_start, t_end, key)"
        " SELECT $1::uuid, t_ms, t_start, t_end, key FROM jsonb_to_recordset($2::jsonb)"
        " AS f (key text, t_ms int, t_start int, t_end int) ON CONFLICT (video_id, t_ms) DO "
        "NOTHING";
    cv_auto(json_decref) json_t *rows = json_array();
    size_t index;
    json_t *frame;
    json_array_foreach(list, index, frame)
    {
        CV_TRY(make_row(frame, index, video_id, rows, error));
    }
    cv_auto_free char *text = json_dumps(rows, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "a list of frames");
    char from[24];
    (void)snprintf(from, sizeof(from), "%" PRId64, from_ms);
    CV_TRY(cv_db_run(db, NULL, error, clear, video_id, from));
    return cv_db_run(db, NULL, error, insert, video_id, text);
}

/* The keys of the lists of frames, which OCR reads; only the video's own. */
static int check_lists(const json_t *keys, const char *video_id, struct cv_error *error)
{
    size_t count = json_array_size(keys);
    bool is_good = count > 0 && count <= OUTPUT_LISTS_MAX;
    for (size_t i = 0; is_good && i < count; i++) {
        is_good = cv_object_belongs(CV_OBJECT_FRAMES, json_string_value(json_array_get(keys, i)),
                                    video_id);
    }
    return is_good ? 0
                   : cv_fail(error, CV_ERROR_STAGE_PROTOCOL,
                             "the result has no usable \"frame_paths\"");
}

/* Stores the size and the duration of the video, which places and times refer to, and whether it is
 * cut off, until transcode stores them. */
static int record_source(struct cv_db *db, const char *video_id, const json_t *result,
                         struct cv_error *error)
{
    json_int_t numbers[4];
    static const char *const names[] = {"width", "height", "duration_ms", "source_frames"};
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        const json_t *value = json_object_get(result, names[i]);
        numbers[i] = json_integer_value(value);
        if (!json_is_integer(value) || numbers[i] < 0 || numbers[i] > INT32_MAX) {
            return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "the result has no usable %s", names[i]);
        }
    }
    char resolution[32], duration[24], fps[32];
    double seconds = (double)numbers[2] / 1e3;
    const json_t *next = json_object_get(result, "goes_on_ms");
    double seen = next ? json_number_value(next) / 1e3 : seconds;
    (void)snprintf(resolution, sizeof(resolution), "%dx%d", (int)numbers[0], (int)numbers[1]);
    (void)snprintf(duration, sizeof(duration), "%.3f", seconds);
    (void)snprintf(fps, sizeof(fps), "%.3f", seen > 0 ? (double)numbers[3] / seen : 0);
    const json_t *truncated = json_object_get(result, "truncated");
    return cv_db_run(db, NULL, error,
                     "UPDATE videos SET resolution = coalesce(resolution, $2),"
                     " duration = coalesce(duration, $3::float8), fps = coalesce(fps, $4::float8),"
                     " truncated = coalesce(truncated, $5::boolean)"
                     " WHERE id = $1::uuid AND (resolution IS NULL OR duration IS NULL"
                     " OR truncated IS NULL AND $5::boolean IS NOT NULL)",
                     video_id, resolution, duration, fps,
                     !truncated                ? NULL
                     : json_is_true(truncated) ? "true"
                                               : "false");
}

/* The next part is another job's, while `ocr` reads this one. A part that is shorter than parts are made would let a
 * stage that a stranger's file has taken over ask for jobs without end. */
static int go_on(struct cv_db *db, const struct cv_job *job, const struct job *part,
                 const json_t *result, struct cv_error *error)
{
    const json_t *next = json_object_get(result, "goes_on_ms");
    if (!next) {
        return 0;
    }
    int64_t next_ms = json_integer_value(next);
    int64_t least_ms = part->part_ms / FIRST_PART_SHARE;
    if (!json_is_integer(next) || least_ms == 0 || next_ms < part->from_ms + least_ms ||
        next_ms > INT32_MAX) {
        return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "the result has no usable \"goes_on_ms\"");
    }
    cv_auto(json_decref) json_t *payload = json_copy(job->payload);
    CV_TRY_MEMORY(payload && json_object_set(payload, "from_ms", (json_t *)next) == 0, error,
                  "the next part's job");
    return cv_queue_continue(db, job, payload, error);
}

static int commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                  struct cv_error *error)
{
    struct job part = {0};
    CV_TRY(read_payload(job->payload, &part, error));
    const json_t *frames = json_object_get(result, "frames");
    if (!json_is_array(frames) || json_array_size(frames) == 0) {
        return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "the result has no list of frames");
    }
    json_t *lists = json_object_get(result, "frame_paths");
    CV_TRY(check_lists(lists, part.video_id, error));
    CV_TRY(record_frames(db, part.video_id, part.from_ms, frames, error));
    CV_TRY(record_source(db, part.video_id, result, error));
    /* A part may read lines of its neighbours, too; they are the same rows. */
    CV_TRY(cv_said_store(db, part.video_id, "subtitle", "track",
                         json_object_get(result, "subtitles"), part.from_ms == 0, error));
    CV_TRY(go_on(db, job, &part, result, error));
    CV_TRY(part.from_ms == 0 && cv_env("TRANSCRIBE_URL", NULL)
               ? cv_db_run(db, NULL, error, "SELECT transcribe_video($1::uuid)", part.video_id)
               : 0);
    cv_auto(json_decref) json_t *payload =
        json_pack("{s:s,s:O}", "video_id", part.video_id, "frame_paths", lists);
    CV_TRY_MEMORY(payload, error, "the OCR job");
    CV_TRY(pass_on(job->payload, "languages", NULL, payload, error));
    CV_TRY(pass_on(job->payload, "min_confidence", json_real(0.6), payload, error));
    return cv_queue_enqueue_successor(db, job, "ocr", payload, error);
}

static const struct cv_grant grants[] = {
    {CV_GRANT_READ, CV_KEYS_ORIGINALS "{video_id}/*"},
    {CV_GRANT_READ | CV_GRANT_DELETE, CV_KEYS_FRAMES "{video_id}/*"},
    {CV_GRANT_WRITE, CV_KEYS_FRAMES "{video_id}/*.jpg"},
    {CV_GRANT_WRITE, CV_KEYS_FRAMES "{video_id}/*.json"},
    {0},
};

const struct cv_stage sample_stage = {
    .name = "sample-worker",
    .job_type = "sample",
    .needs = CV_STAGE_NEEDS_STORE,
    .grants = grants,
    .run = run,
    .commit = commit,
};
