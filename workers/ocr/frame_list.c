#include "workers/ocr/frame_list.h"

#include "workers/ocr/stage.h"

#include <string.h>

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

static int read_list(struct cv_stage_context *context, const char *key, json_t *paths,
                     json_t *frames, struct cv_error *error)
{
    cv_auto_free void *data = NULL;
    size_t size = 0;
    if (!is_list(key)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"frame_paths\" names lists and frames");
    }
    int result = cv_store_get(cv_stage_store(context), key, LIST_BYTES_MAX, &data, &size, error);
    if (result == CV_STORE_NOT_FOUND) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "the list of frames %s is missing", key);
    }
    if (result != 0) {
        return result;
    }
    json_error_t reason;
    cv_auto(json_decref) json_t *list = json_loadb(data, size, JSON_REJECT_DUPLICATES, &reason);
    return list ? add_frames(json_object_get(list, "frames"), key, paths, frames, error)
                : cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s is no JSON: %s", key, reason.text);
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
                      json_object_set(whole, "frames", frames) == 0,
                  error, "a list of frames");
    for (size_t i = 0; i < json_array_size(keys); i++) {
        CV_TRY(
            read_list(context, json_string_value(json_array_get(keys, i)), paths, frames, error));
    }
    *ret_payload = cv_take(whole);
    return 0;
}
