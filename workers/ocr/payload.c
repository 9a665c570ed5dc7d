
#include "workers/ocr/stage.h"

#include <math.h>
#include <string.h>

/* A frame of a payload before its times are known. */
struct named_frame {
    const char *key;
    int64_t t_ms; /* from the file name; -1 when it has none */
};

static int invalid(struct cv_error *error, const char *what, size_t index)
{
    return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload: %s (entry %zu)", what, index);
}

void ocr_payload_deinit(struct ocr_payload *payload)
{
    for (size_t i = 0; payload->timings && i < payload->frame_count; i++) {
        free(payload->timings[i].motion);
    }
    free(payload->timings);
    free(payload->frame_keys);
    free(payload->line_keys);
    *payload = (struct ocr_payload){0};
}

/* The number between the last '/' and the extension. */
static int64_t time_of_key(const char *key)
{
    const char *name = strrchr(key, '/');
    char digits[16];
    int64_t value;

    name = name ? name + 1 : key;
    size_t length = strcspn(name, ".");
    if (length == 0 || length >= sizeof(digits)) {
        return -1;
    }
    memcpy(digits, name, length);
    digits[length] = '\0';
    return cv_parse_int(digits, 0, OCR_TIME_MAX_MS, &value) ? value : -1;
}

static int compare_frames(const void *left, const void *right)
{
    const struct named_frame *a = left, *b = right;

    if (a->t_ms != b->t_ms) {
        return a->t_ms < b->t_ms ? -1 : 1;
    }
    return strcmp(a->key, b->key);
}

static int read_keys(const json_t *paths, struct named_frame *frames, struct cv_error *error)
{
    for (size_t i = 0; i < json_array_size(paths); i++) {
        const char *key = json_string_value(json_array_get(paths, i));
        struct cv_error reason;
        if (!key || cv_store_check_key(key, &reason) < 0) {
            return invalid(error, "\"frame_paths\" must hold object keys", i);
        }
        frames[i] = (struct named_frame){key, time_of_key(key)};
    }
    return 0;
}

/* A payload of another program may have no times: then the file names tell them. */
static int times_from_names(struct named_frame *frames, struct ocr_payload *payload,
                            struct cv_error *error)
{
    size_t count = payload->frame_count;

    qsort(frames, count, sizeof(*frames), compare_frames);
    for (size_t i = 0; i < count; i++) {
        if (frames[i].t_ms < 0) {
            return cv_fail(
                error, CV_ERROR_INVALID_PAYLOAD,
                "payload: \"frames\" is missing, and the name \"%.200s\" contains no time",
                frames[i].key);
        }
        int64_t end = i + 1 < count ? frames[i + 1].t_ms : frames[i].t_ms + OCR_LAST_FRAME_MS;
        payload->timings[i].t_start = frames[i].t_ms;
        payload->timings[i].t_end = end;
    }
    return 0;
}

static bool read_number(const json_t *value, int64_t low, int64_t high, int64_t *ret_value)
{
    int64_t number = json_is_real(value) && json_real_value(value) >= (double)low &&
                             json_real_value(value) <= (double)high
                         ? llround(json_real_value(value))
                         : json_integer_value(value);

    if (!json_is_number(value) || number < low || number > high) {
        return false;
    }
    *ret_value = number;
    return true;
}

/* Both members, or unknown: null and missing mean the same. */
static bool read_shift(const json_t *frame, struct ocr_timing *timing)
{
    const json_t *dx = json_object_get(frame, "dx"), *dy = json_object_get(frame, "dy");
    int64_t x = 0, y = 0;
    bool no_dx = !dx || json_is_null(dx), no_dy = !dy || json_is_null(dy);

    if (no_dy) {
        return true;
    }
    if (!read_number(dy, -OCR_SHIFT_MAX, OCR_SHIFT_MAX, &y) ||
        (!no_dx && !read_number(dx, -OCR_SHIFT_MAX, OCR_SHIFT_MAX, &x))) {
        return false;
    }
    timing->shift_known = true;
    timing->dx = (int)x;
    timing->dy = (int)y;
    return true;
}

static bool read_motion_entry(const json_t *entry, struct ocr_motion *motion)
{
    int64_t t_ms, x, y;

    if (!read_number(json_array_get(entry, 0), 0, OCR_TIME_MAX_MS, &t_ms) ||
        !read_number(json_array_get(entry, 1), -OCR_SHIFT_MAX, OCR_SHIFT_MAX, &x) ||
        !read_number(json_array_get(entry, 2), -OCR_SHIFT_MAX, OCR_SHIFT_MAX, &y)) {
        return false;
    }
    *motion = (struct ocr_motion){t_ms, (int)x, (int)y};
    return true;
}

static int read_motion(const json_t *frame, size_t index, struct ocr_timing *timing, size_t *total,
                       struct cv_error *error)
{
    const json_t *list = json_object_get(frame, "motion");
    size_t count = json_array_size(list);

    if (list && !json_is_null(list) && !json_is_array(list)) {
        return invalid(error, "\"frames\": \"motion\" must be a list", index);
    }
    *total += count;
    if (*total > OCR_MOTIONS_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: more than %d entries of \"motion\"", OCR_MOTIONS_MAX);
    }
    if (count == 0) {
        return 0;
    }
    timing->motion = calloc(count, sizeof(*timing->motion));
    CV_TRY_MEMORY(timing->motion, error, "motions");
    timing->motion_count = count;
    for (size_t i = 0; i < count; i++) {
        if (!read_motion_entry(json_array_get(list, i), &timing->motion[i])) {
            return invalid(error, "\"frames\": \"motion\" must hold [t_ms, dx, dy]", index);
        }
    }
    return 0;
}

static int times_from_frames(const json_t *list, struct ocr_payload *payload,
                             struct cv_error *error)
{
    size_t total = 0;

    if (!json_is_array(list) || json_array_size(list) != payload->frame_count) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"frames\" must be a list as long as \"frame_paths\"");
    }
    for (size_t i = 0; i < payload->frame_count; i++) {
        const json_t *frame = json_array_get(list, i);
        struct ocr_timing *timing = &payload->timings[i];
        if (!read_number(json_object_get(frame, "t_start"), 0, OCR_TIME_MAX_MS, &timing->t_start)) {
            return invalid(error, "\"frames\": \"t_start\" must be milliseconds", i);
        }
        if (!read_number(json_object_get(frame, "t_end"), timing->t_start, OCR_TIME_MAX_MS,
                         &timing->t_end)) {
            return invalid(error, "\"frames\": \"t_end\" must be milliseconds after \"t_start\"",
                           i);
        }
        if (i && timing->t_start < payload->timings[i - 1].t_start) {
            return invalid(error, "\"frames\" must be in order of time", i);
        }
        if (!read_shift(frame, timing)) {
            return invalid(error, "\"frames\": \"dx\" and \"dy\" must be pixels or null", i);
        }
        CV_TRY(read_motion(frame, i, timing, &total, error));
    }
    return 0;
}

static int read_frames(const json_t *json, struct ocr_payload *payload, struct cv_error *error)
{
    const json_t *paths = json_object_get(json, "frame_paths");
    const json_t *list = json_object_get(json, "frames");
    size_t count = json_array_size(paths);

    if (!json_is_array(paths) || count > OCR_FRAMES_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"frame_paths\" must be a list of at most %d object keys",
                       OCR_FRAMES_MAX);
    }
    cv_auto_free struct named_frame *frames = calloc(count + 1, sizeof(*frames));
    payload->frame_keys = calloc(count + 1, sizeof(*payload->frame_keys));
    payload->timings = calloc(count + 1, sizeof(*payload->timings));
    CV_TRY_MEMORY(frames && payload->frame_keys && payload->timings, error, "frames");
    payload->frame_count = count;
    CV_TRY(read_keys(paths, frames, error));
    int result = !list || json_is_null(list) ? times_from_names(frames, payload, error)
                                             : times_from_frames(list, payload, error);
    for (size_t i = 0; i < count; i++) {
        payload->frame_keys[i] = frames[i].key;
    }
    return result;
}

static int read_languages(const json_t *json, struct ocr_payload *payload, struct cv_error *error)
{
    const json_t *list = json_object_get(json, "languages");
    size_t count = json_array_size(list);

    if (!list || json_is_null(list)) {
        return 0;
    }
    if (!json_is_array(list) || count < 1 || count > OCR_LANGUAGES_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"languages\" must be a list of 1 to %d model names",
                       OCR_LANGUAGES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        payload->languages[i] = json_string_value(json_array_get(list, i));
        if (!payload->languages[i]) {
            return invalid(error, "\"languages\" must hold model names such as \"eng\"", i);
        }
    }
    payload->language_count = count;
    return 0;
}

/* Packs of lines instead of frames; only the video's own. */
static int read_lines(const json_t *json, struct ocr_payload *payload, struct cv_error *error)
{
    const json_t *paths = json_object_get(json, "line_paths");
    size_t count = json_array_size(paths);

    if (!json_is_array(paths) || count < 1 || count > OCR_PACKS_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"line_paths\" must be a list of 1 to %d object keys",
                       OCR_PACKS_MAX);
    }
    payload->line_keys = calloc(count, sizeof(*payload->line_keys));
    CV_TRY_MEMORY(payload->line_keys, error, "packs of lines");
    for (size_t i = 0; i < count; i++) {
        const char *key = json_string_value(json_array_get(paths, i));
        if (!cv_object_belongs(CV_OBJECT_LINES, key, payload->video_id)) {
            return invalid(error, "\"line_paths\" must hold keys of the video's lines", i);
        }
        payload->line_keys[i] = key;
    }
    payload->line_key_count = count;
    return 0;
}

int ocr_payload_read(const json_t *json, struct ocr_payload *payload, struct cv_error *error)
{
    *payload = (struct ocr_payload){0};
    CV_TRY(cv_payload_uuid(json, "video_id", &payload->video_id, error));
    CV_TRY(
        cv_payload_double_or(json, "min_confidence", 0.6, 0, 1, &payload->min_confidence, error));
    CV_TRY(cv_payload_int_or(json, "duration_ms", 0, 0, INT64_MAX, &payload->duration_ms, error));
    CV_TRY(read_languages(json, payload, error));
    payload->with_evidence = json_is_true(json_object_get(json, "evidence"));
    return json_object_get(json, "line_paths") ? read_lines(json, payload, error)
                                               : read_frames(json, payload, error);
}

bool ocr_payload_is_again(const json_t *json)
{
    return json_object_get(json, "line_paths") != NULL;
}

/* ---- lists of frames --------------------------------------------------------------------------- */

/* Of one list: a thousand frames with the shift of every source frame between them take 1 MiB. */
enum { LIST_BYTES_MAX = 64 << 20 };

static const char ending[] = ".json";

static bool is_list(const char *key)
{
    size_t length = key ? strlen(key) : 0;
    return length > strlen(ending) && strcmp(key + length - strlen(ending), ending) == 0;
}

static int add_frames(const json_t *list, const char *key, json_t *paths, json_t *frames,
                      struct cv_error *error)
{
    size_t index;
    json_t *frame;
    if (!json_is_array(list) || json_array_size(list) > OCR_FRAMES_MAX - json_array_size(frames)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s has no list of at most %d frames", key,
                       OCR_FRAMES_MAX);
    }
    json_array_foreach(list, index, frame)
    {
        json_t *path = json_object_get(frame, "path");
        if (!json_is_string(path)) {
            return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s: frame %zu has no \"path\"", key,
                           index);
        }
        CV_TRY_MEMORY(json_array_append(paths, path) == 0 && json_array_append(frames, frame) == 0,
                      error, "a list of frames");
    }
    return 0;
}

/* Adds what a list has of subtitles to those of the whole payload, and the duration of the video. */
static int add_subtitles(const json_t *list, json_t *whole, struct cv_error *error)
{
    json_t *shown = json_object_get(list, "subtitles");
    json_t *duration = json_object_get(list, "duration_ms");
    json_int_t lost = json_integer_value(json_object_get(list, "lost_subtitles")) +
                      json_integer_value(json_object_get(whole, "lost_subtitles"));
    CV_TRY_MEMORY(json_object_set_new(whole, "lost_subtitles", json_integer(cv_max(lost, 0))) ==
                          0 &&
                      (!duration || json_object_set(whole, "duration_ms", duration) == 0) &&
                      (!json_is_array(shown) ||
                       json_array_extend(json_object_get(whole, "subtitles"), shown) == 0),
                  error, "subtitles");
    return 0;
}

static int read_list(struct cv_stage_context *context, const char *key, json_t *paths,
                     json_t *frames, json_t *whole, struct cv_error *error)
{
    cv_auto_free void *data = NULL;
    size_t size = 0;
    if (!is_list(key)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"frame_paths\" names lists and frames");
    }
    int result = cv_store_get(cv_stage_store(context), key, LIST_BYTES_MAX, &data, &size, error);
    if (result == CV_STORE_NOT_FOUND) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "%s is missing in the store", key);
    }
    if (result != 0) {
        return result;
    }
    json_error_t reason;
    cv_auto(json_decref) json_t *list = json_loadb(data, size, JSON_REJECT_DUPLICATES, &reason);
    CV_TRY(list ? add_frames(json_object_get(list, "frames"), key, paths, frames, error)
                : cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s is no JSON: %s", key, reason.text));
    return add_subtitles(list, whole, error);
}

int ocr_frame_list_expand(struct cv_stage_context *context, const json_t *payload,
                          json_t **ret_payload, struct cv_error *error)
{
    const json_t *keys = json_object_get(payload, "frame_paths");
    if (!is_list(json_string_value(json_array_get(keys, 0)))) {
        *ret_payload = json_incref((json_t *)payload);
        return 0;
    }
    cv_auto(json_decref) json_t *paths = json_array();
    cv_auto(json_decref) json_t *frames = json_array();
    cv_auto(json_decref) json_t *whole = json_copy((json_t *)payload);
    CV_TRY_MEMORY(paths && frames && whole && json_object_set(whole, "frame_paths", paths) == 0 &&
                      json_object_set(whole, "frames", frames) == 0 &&
                      json_object_set_new(whole, "subtitles", json_array()) == 0,
                  error, "a list of frames");
    for (size_t i = 0; i < json_array_size(keys); i++) {
        CV_TRY(read_list(context, json_string_value(json_array_get(keys, i)), paths, frames, whole,
                         error));
    }
    *ret_payload = cv_take(whole);
    return 0;
}
