#include "workers/transcode/transcode.h"

#include <string.h>

static const char short_sides_variable[] = "CORTANA_RENDITIONS";

static int add(struct transcode_request *request, int64_t short_side, enum cv_error_type type,
               const char *where, struct cv_error *error)
{
    bool is_known =
        short_side > 0 && short_side <= CV_MEDIA_SIDE_MAX && cv_ladder_is_preset((int)short_side);
    if (!is_known || request->short_side_count == CV_LADDER_RENDITIONS_MAX) {
        return cv_fail(error, type, "%s: renditions are among 2160, 1440, 1080, 720, 480, 360, 240",
                       where);
    }
    request->short_sides[request->short_side_count++] = (int)short_side;
    return 0;
}

/* Reads a list such as "1080,720,360". */
static int read_environment(struct transcode_request *request, struct cv_error *error)
{
    const char *text = cv_env(short_sides_variable, "");
    while (*text != '\0') {
        char *end = NULL;
        long long value = strtoll(text, &end, 10);
        bool ends = *end == ',' || *end == '\0';
        CV_TRY(add(request, end > text && ends ? value : 0, CV_ERROR_CONFIGURATION,
                   short_sides_variable, error));
        text = *end == ',' ? end + 1 : end;
    }
    return 0;
}

static int read_short_sides(const json_t *payload, struct transcode_request *request,
                            struct cv_error *error)
{
    static const char key[] = "renditions";
    const json_t *list = json_object_get(payload, key);
    if (!list || json_is_null(list)) {
        return read_environment(request, error);
    }
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload: \"%s\" is not a list of heights",
                       key);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        CV_TRY(add(request, json_is_integer(value) ? json_integer_value(value) : 0,
                   CV_ERROR_INVALID_PAYLOAD, "payload: \"renditions\"", error));
    }
    return 0;
}

static int read_format(const json_t *payload, struct transcode_request *request,
                       struct cv_error *error)
{
    static const char key[] = "segments", variable[] = "CORTANA_SEGMENTS";
    const json_t *value = json_object_get(payload, key);
    bool is_asked = value && !json_is_null(value);
    const char *name = is_asked ? json_string_value(value) : cv_env(variable, "fmp4");
    if (name && strcmp(name, "ts") == 0) {
        request->format = CV_SEGMENT_TS;
    } else if (name && strcmp(name, "fmp4") == 0) {
        request->format = CV_SEGMENT_MP4;
    } else if (is_asked) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload: \"%s\" is \"ts\" or \"fmp4\"",
                       key);
    } else {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s must be ts or fmp4", variable);
    }
    return 0;
}

/* Whether the original may be copied as the largest rendition. */
static int read_copies(const json_t *payload, bool *ret_copies, struct cv_error *error)
{
    const json_t *value = json_object_get(payload, "copy");
    if (value && !json_is_null(value) && !json_is_boolean(value)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload: \"copy\" is not a boolean");
    }
    *ret_copies = !json_is_false(value);
    return 0;
}

int transcode_read_request(const json_t *payload, struct transcode_request *request,
                           struct cv_error *error)
{
    *request = (struct transcode_request){.format = CV_SEGMENT_MP4};
    CV_TRY(cv_payload_uuid(payload, "video_id", &request->video_id, error));
    CV_TRY(cv_payload_object_key(payload, "s3_original_path", &request->original, error));
    CV_TRY(read_short_sides(payload, request, error));
    CV_TRY(read_format(payload, request, error));
    CV_TRY(transcode_read_split(payload, request, error));
    request->encoded_because = json_string_value(json_object_get(payload, "encoded_because"));
    if (request->split >= TRANSCODE_CHUNK && !json_object_get(payload, "copy")) {
        return 0;
    }
    return read_copies(payload, &request->copies, error);
}
