#include "workers/clip_generate/request.h"

#include "common/media/media.h"

#include <inttypes.h>
#include <string.h>

enum {
    TIME_MAX_MS = INT32_MAX,        /* range of the segments' columns: 24 days */
    LENGTH_MAX_MS = 60 * 60 * 1000, /* a clip, not a copy */
    GIF_MAX_MS = 60 * 1000,         /* a minute of GIF has tens of megabytes */
    PADDING_MS = 2000,
    PADDING_MAX_MS = 60 * 1000,
    HEIGHT_MIN = 16, /* one block of the encoder */
    CROP_MIN = 16,
    US_PER_MS = 1000,
};

static const char *const formats[] = {
    [CLIP_MP4] = "mp4",
    [CLIP_WEBM] = "webm",
    [CLIP_GIF] = "gif",
    [CLIP_JPG] = "jpg",
};

void clip_request_deinit(struct clip_request *request)
{
    free(request->key);
    request->key = NULL;
    clip_covers_deinit(&request->covers);
}

/* Returns a member; NULL if it is missing or null. */
static const json_t *member(const json_t *payload, const char *key)
{
    const json_t *value = json_object_get(payload, key);
    return json_is_null(value) ? NULL : value;
}

/* Reads one of `words`; the first if the member is missing. */
static int read_word(const json_t *payload, const char *key, const char *const *words, size_t count,
                     size_t *ret_index, struct cv_error *error)
{
    const json_t *value = member(payload, key);
    const char *text = json_string_value(value);
    for (size_t i = 0; i < count; i++) {
        if (!value || (text && strcmp(text, words[i]) == 0)) {
            *ret_index = i;
            return 0;
        }
    }
    cv_auto(cv_buffer_deinit) struct cv_buffer list = CV_BUFFER_INIT;
    for (size_t i = 0; i < count; i++) {
        cv_buffer_printf(&list, "%s\"%s\"", i == 0 ? "" : " or ", words[i]);
    }
    return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload: \"%s\" must be %s", key,
                   list.failed ? "a known word" : list.data);
}

static int read_flag(const json_t *payload, const char *key, bool *ret_flag, struct cv_error *error)
{
    const json_t *value = member(payload, key);
    if (value && !json_is_boolean(value)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload: \"%s\" must be true or false",
                       key);
    }
    *ret_flag = json_is_true(value);
    return 0;
}

static int read_crop(const json_t *payload, struct clip_box *ret_box, struct cv_error *error)
{
    const json_t *value = member(payload, "crop");
    if (!value) {
        return 0;
    }
    if (!json_is_object(value)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"crop\" must be an object with x, y, width and height");
    }
    int64_t x = 0, y = 0, width = 0, height = 0;
    int result = cv_payload_int(value, "x", 0, CV_MEDIA_SIDE_MAX, &x, error);
    result = result ? result : cv_payload_int(value, "y", 0, CV_MEDIA_SIDE_MAX, &y, error);
    result = result ? result
                    : cv_payload_int(value, "width", CROP_MIN, CV_MEDIA_SIDE_MAX, &width, error);
    result = result ? result
                    : cv_payload_int(value, "height", CROP_MIN, CV_MEDIA_SIDE_MAX, &height, error);
    if (result != 0) {
        return cv_fail_context(error, result, "crop");
    }
    *ret_box = (struct clip_box){(int)x, (int)y, (int)width, (int)height};
    return 0;
}

static int read_options(const json_t *payload, struct clip_request *request, struct cv_error *error)
{
    static const char *const modes[] = {[CLIP_SMART] = "smart", [CLIP_ENCODE] = "encode"};
    size_t mode = CLIP_SMART, format = CLIP_MP4;
    int64_t height = 0;
    CV_TRY(read_word(payload, "mode", modes, CV_COUNT(modes), &mode, error));
    CV_TRY(read_word(payload, "format", formats, CV_COUNT(formats), &format, error));
    if (member(payload, "max_height")) {
        CV_TRY(
            cv_payload_int(payload, "max_height", HEIGHT_MIN, CV_MEDIA_SIDE_MAX, &height, error));
    }
    CV_TRY(read_flag(payload, "mute", &request->mute, error));
    CV_TRY(read_crop(payload, &request->crop, error));
    request->mode = (enum clip_mode)mode;
    request->format = (enum clip_format)format;
    request->max_height = (int)height;
    return 0;
}

static int check_range(const struct clip_request *request, struct cv_error *error)
{
    if (request->t_end_ms <= request->t_start_ms) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"t_end\" (%" PRId64 " ms) must be after \"t_start\" (%" PRId64
                       " ms)",
                       request->t_end_ms, request->t_start_ms);
    }
    bool gif = request->format == CLIP_GIF;
    int limit_ms = gif ? GIF_MAX_MS : LENGTH_MAX_MS;
    if (request->t_end_ms - request->t_start_ms > limit_ms) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: a %s of %" PRId64 " ms is longer than the limit of %d ms",
                       gif ? "GIF" : "clip", request->t_end_ms - request->t_start_ms, limit_ms);
    }
    return 0;
}

/* A still picture has no end and no padding, so its payload may leave them out. */
static int read_range(const json_t *payload, struct clip_request *request, struct cv_error *error)
{
    CV_TRY(cv_payload_int(payload, "t_start", 0, TIME_MAX_MS, &request->t_start_ms, error));
    if (request->format == CLIP_JPG) {
        request->t_end_ms = request->t_start_ms + 1;
        return 0;
    }
    CV_TRY(cv_payload_int(payload, "t_end", 0, TIME_MAX_MS, &request->t_end_ms, error));
    CV_TRY(cv_payload_int_or(payload, "padding_ms", PADDING_MS, 0, PADDING_MAX_MS,
                             &request->padding_ms, error));
    return check_range(request, error);
}

static int read_quote(const json_t *payload, struct clip_request *request, struct cv_error *error)
{
    const json_t *quote = member(payload, "quote"), *text;
    size_t i;
    request->quote = quote ? json_object_get(quote, "lines") : NULL;
    bool is_list = !quote || (json_is_array(request->quote) &&
                              json_array_size(request->quote) <= CLIP_QUOTE_LINES_MAX);
    json_array_foreach(request->quote, i, text)
    {
        is_list = is_list && json_is_string(text);
    }
    return is_list ? 0
                   : cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                             "payload: \"lines\" of \"quote\" must be at most %d texts",
                             CLIP_QUOTE_LINES_MAX);
}

static int read_parts(const json_t *payload, struct clip_request *request, struct cv_error *error)
{
    request->parts = member(payload, "parts");
    bool is_list = !request->parts || (json_is_array(request->parts) &&
                                       json_array_size(request->parts) <= CLIP_PARTS_MAX);
    if (!is_list || (request->parts && request->format != CLIP_MP4)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"parts\" must be at most %d parts of an mp4", CLIP_PARTS_MAX);
    }
    return 0;
}

int clip_request_read(const json_t *payload, struct clip_request *request, struct cv_error *error)
{
    CV_TRY(cv_payload_uuid(payload, "video_id", &request->video_id, error));
    CV_TRY(cv_payload_uuid(payload, "clip_id", &request->clip_id, error));
    CV_TRY(cv_payload_object_key(payload, "s3_original_path", &request->original, error));
    CV_TRY(read_options(payload, request, error));
    CV_TRY(read_range(payload, request, error));
    CV_TRY(clip_covers_read(payload, &request->covers, error));
    CV_TRY(read_quote(payload, request, error));
    CV_TRY(read_parts(payload, request, error));
    return cv_object_key(CV_OBJECT_CLIPS, request->video_id, &request->key, error, "%s.%s",
                         request->clip_id, formats[request->format]);
}

int64_t clip_request_start_us(const struct clip_request *request)
{
    int64_t start_ms = request->t_start_ms - request->padding_ms;
    return (start_ms > 0 ? start_ms : 0) * US_PER_MS;
}

int64_t clip_request_end_us(const struct clip_request *request)
{
    return (request->t_end_ms + request->padding_ms) * US_PER_MS;
}
