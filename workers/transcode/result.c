#include "workers/transcode/transcode.h"

#include <math.h>
#include <string.h>

static json_t *rendition_to_json(const struct cv_rendition_summary *rendition)
{
    return json_pack("{s:s, s:i, s:i, s:I, s:i, s:I, s:I, s:s, s:b}", "name", rendition->name,
                     "width", rendition->width, "height", rendition->height, "frames",
                     (json_int_t)rendition->frames, "segments", rendition->segments, "bandwidth",
                     (json_int_t)rendition->bandwidth, "average_bandwidth",
                     (json_int_t)rendition->average_bandwidth, "codec", rendition->codec, "copied",
                     rendition->copied);
}

/* Seconds since 1970 of the start of the recording by the file's tags; null: they do not say. */
static json_t *recording_time(const struct cv_media_info *info, int64_t duration_us)
{
    int64_t start_us = info->recorded_us - (info->recorded_is_end ? duration_us : 0);
    return info->recorded_us == 0 ? json_null() : json_real((double)start_us / 1e6);
}

static json_t *renditions_to_json(const struct cv_ladder_summary *summary)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < summary->count; i++) {
        if (json_array_append_new(list, rendition_to_json(&summary->renditions[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

int transcode_result(const struct transcode_report *report, const char *video_id,
                     json_t **ret_result, struct cv_error *error)
{
    cv_auto_free char *playlist = NULL;
    cv_auto_free char *poster = NULL;
    CV_TRY(transcode_playlist_key(video_id, &playlist, error));
    CV_TRY(transcode_poster_key(video_id, &poster, error));
    const struct cv_media_info *info = &report->info;
    const struct cv_ladder_summary *summary = &report->summary;
    char resolution[32];
    int width, height;
    cv_shown_size(info, &width, &height);
    (void)snprintf(resolution, sizeof(resolution), "%dx%d", width, height);
    bool sound = info->audio_codec[0] != '\0';
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:f, s:f, s:s, s:s, s:s, s:i, s:b, s:b, s:b, s:b, s:s?, s:o, s:o, s:i,"
        " s:I, s:I, s:b, s:i, s:o, s:s, s:s*, s:o}",
        "s3_proxy_path", playlist, "s3_thumb_path", poster, "resolution", resolution, "fps",
        report->frame_rate, "duration", round((double)summary->duration_us / 1e3) / 1e3,
        "container", info->container, "video_codec", info->video_codec, "pixel_format",
        info->pixel_format, "rotation", info->rotation, "mirrored", info->mirrored,
        "variable_frame_rate", report->variable_frame_rate, "high_dynamic_range",
        info->high_dynamic_range, "interlaced", info->interlaced, "audio_codec",
        sound ? info->audio_codec : NULL, "audio_channels",
        sound ? json_integer(info->audio_channels) : json_null(), "audio_sample_rate",
        sound ? json_integer(info->audio_sample_rate) : json_null(), "audio_streams",
        info->audio_streams, "frames", (json_int_t)report->source_frames, "damaged_frames",
        (json_int_t)report->damaged_frames, "truncated", report->truncated, "sprite_tiles",
        summary->sprite_tiles, "renditions", renditions_to_json(summary), "content",
        report->is_screen ? "screen" : "any", "encoded_because",
        report->encoded_because[0] ? report->encoded_because : NULL, "recorded_tag",
        recording_time(info, summary->duration_us));
    CV_TRY_MEMORY(object, error, "the result");
    *ret_result = object;
    return 0;
}

/* ---- into the tables ----------------------------------------------------------------------------- */

enum { TARGET_FPS = 10 };
static const double dedupe_threshold = 0.95;

/* A member of a result as a text parameter of a statement; NULL (SQL NULL) if it is missing or has
 * another type than the column. */
struct parameter {
    char text[160];
    bool is_null;
};

static void read_parameter(const json_t *result, const char *key, struct parameter *parameter)
{
    const json_t *value = json_object_get(result, key);
    parameter->is_null = false;
    if (json_is_string(value)) {
        (void)snprintf(parameter->text, sizeof(parameter->text), "%s", json_string_value(value));
    } else if (json_is_integer(value)) {
        (void)snprintf(parameter->text, sizeof(parameter->text), "%" JSON_INTEGER_FORMAT,
                       json_integer_value(value));
    } else if (json_is_real(value)) {
        (void)snprintf(parameter->text, sizeof(parameter->text), "%.6f", json_real_value(value));
    } else if (json_is_boolean(value)) {
        (void)snprintf(parameter->text, sizeof(parameter->text), "%s",
                       json_is_true(value) ? "true" : "false");
    } else {
        parameter->is_null = true;
    }
}

/* The result's columns, in the order of the statement's parameters from $4 on. */
static const char *const columns[] = {
    "resolution",        "fps",
    "duration",          "container",
    "video_codec",       "pixel_format",
    "rotation",          "variable_frame_rate",
    "audio_codec",       "audio_channels",
    "audio_sample_rate", "truncated",
    "recorded_tag",
};

static int update_video(struct cv_db *db, const char *video_id, const json_t *result,
                        struct cv_error *error)
{
    static const char *const sql =
        "UPDATE videos SET s3_proxy_path = $2, s3_thumb_path = $3, resolution = $4,"
        " fps = $5::float8, duration = $6::float8, container = $7, video_codec = $8,"
        " pixel_format = $9, rotation = $10::int, variable_frame_rate = $11::boolean,"
        " audio_codec = $12, audio_channels = $13::int, audio_sample_rate = $14::int,"
        " truncated = $15::boolean,"
        " recorded_tag = to_timestamp(greatest(least($16::float8, 1e10), 0)) WHERE id = $1::uuid";
    cv_auto_free char *playlist = NULL;
    cv_auto_free char *poster = NULL;
    CV_TRY(transcode_playlist_key(video_id, &playlist, error));
    CV_TRY(transcode_poster_key(video_id, &poster, error));
    struct parameter values[CV_COUNT(columns)];
    const char *parameters[3 + CV_COUNT(columns)] = {video_id, playlist, poster};
    for (size_t i = 0; i < CV_COUNT(columns); i++) {
        read_parameter(result, columns[i], &values[i]);
        parameters[3 + i] = values[i].is_null ? NULL : values[i].text;
    }
    struct cv_db_statement statement = {sql, CV_COUNT(parameters), parameters};
    return cv_db_query(db, &statement, NULL, error);
}

/* Builds the payload of the sample stage: passes on what was requested when the video was uploaded. */
static int sample_payload(const struct cv_job *job, json_t **ret_payload, struct cv_error *error)
{
    static const char *const handed_on[] = {"target_fps", "dedupe_threshold", "languages",
                                            "min_confidence"};
    cv_auto(json_decref) json_t *payload =
        json_pack("{s:s, s:O, s:i, s:f}", "video_id", job->video_id, "s3_original_path",
                  json_object_get(job->payload, "s3_original_path"), "target_fps", TARGET_FPS,
                  "dedupe_threshold", dedupe_threshold);
    for (size_t i = 0; payload && i < CV_COUNT(handed_on); i++) {
        json_t *value = json_object_get(job->payload, handed_on[i]);
        if (value && json_object_set(payload, handed_on[i], value) != 0) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a payload");
        }
    }
    if (!payload) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload: \"s3_original_path\" is missing");
    }
    *ret_payload = cv_take(payload);
    return 0;
}

/* Passes the request and the plan on to the jobs that do the work. */
static int hand_on_plan(struct cv_db *db, const struct cv_job *job, const json_t *result,
                        struct cv_error *error)
{
    static const char *const planned[] = {"chunks", "segments", "renditions", "copy",
                                          "encoded_because"};
    cv_auto(json_decref) json_t *payload = json_copy(job->payload);
    bool failed = !payload;
    for (size_t i = 0; !failed && i < CV_COUNT(planned); i++) {
        json_t *value = json_object_get(result, planned[i]);
        failed = value && json_object_set(payload, planned[i], value) != 0;
    }
    CV_TRY_MEMORY(!failed, error, "a payload");
    (void)json_object_del(payload, "split");
    (void)json_object_del(payload, "split_seconds");
    return cv_queue_enqueue_successor(db, job, "transcode", payload, error);
}

int transcode_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                     struct cv_error *error)
{
    const char *split = json_string_value(json_object_get(job->payload, "split"));
    if (split && strcmp(split, "plan") == 0) {
        return hand_on_plan(db, job, result, error);
    }
    if (split && strcmp(split, "chunk") == 0) {
        return 0;
    }
    int outcome = update_video(db, job->video_id, result, error);
    cv_auto(json_decref) json_t *payload = NULL;
    outcome = outcome ? outcome : sample_payload(job, &payload, error);
    return outcome ? outcome : cv_queue_enqueue_successor(db, job, "sample", payload, error);
}
