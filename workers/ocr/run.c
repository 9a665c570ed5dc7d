
#include "workers/ocr/codes/codes.h"
#include "workers/ocr/pictures/pictures.h"
#include "workers/ocr/reading/reading.h"
#include "workers/ocr/stage.h"

#include <inttypes.h>
#include <leptonica/allheaders.h>
#include <sys/stat.h>

static int load_frame(struct cv_downloads *frames, const char *key, struct cv_frame *ret_frame,
                      struct cv_error *error)
{
    cv_auto_free void *data = NULL;
    size_t size = 0;

    int result = cv_downloads_next(frames, &data, &size, error);
    if (result == CV_STORE_NOT_FOUND) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "%s is missing in the store", key);
    }
    result = result ? result : cv_frame_decode(data, size, ret_frame, error);
    return result < 0 ? cv_fail_context(error, result, "%s", key) : 0;
}

/* CV_OCR_OTHER_MODELS: all frames have to be read again. */
static int read_frames(struct cv_stage_context *context, const struct ocr_payload *payload,
                       struct ocr_engine *engine, struct ocr_session *session,
                       struct ocr_codes *codes, struct cv_error *error)
{
    cv_auto(cv_downloads_free) struct cv_downloads *frames = NULL;
    CV_TRY(cv_downloads_new(cv_stage_store(context), (const char *const *)payload->frame_keys,
                            payload->frame_count, CV_FRAME_BYTES_MAX, &frames, error));
    for (size_t i = 0; i < payload->frame_count; i++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = {0};
        if (cv_cancel_level(cv_stage_cancel(context)) == CV_CANCEL_ABORT) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped at frame %zu of %zu", i,
                           payload->frame_count);
        }
        CV_TRY(load_frame(frames, payload->frame_keys[i], &frame, error));
        const struct ocr_timing *timing = &payload->timings[i];
        CV_TRY(ocr_codes_frame(codes, &frame, timing->t_start, timing->t_end, error));
        int result = ocr_session_frame(session, &frame, error);
        if (result < 0) {
            return cv_fail_context(error, result, "%s", payload->frame_keys[i]);
        }
        double done = payload->duration_ms > 0
                          ? (double)timing->t_end / (double)payload->duration_ms
                          : (double)(i + 1) / (double)payload->frame_count;
        cv_stage_progress(context, done, "read text");
        CV_TRY(ocr_choose_models(engine, i + 1 == payload->frame_count, error));
    }
    return 0;
}

static int write_pack(struct cv_stage_context *context, struct ocr_pack *pack, char **ret_path,
                      struct cv_error *error)
{
    CV_TRY(cv_format(ret_path, error, "%s/lines.pack", cv_stage_scratch(context)));
    return ocr_pack_write(pack, *ret_path, error);
}

/* "lines/{video_id}/{when the first frame appeared}.pack": another run over the same frames writes the
 * same object. */
static int put_pack(struct cv_stage_context *context, const struct ocr_payload *payload,
                    struct ocr_pack *pack, const char *path, json_t *result, struct cv_error *error)
{
    int64_t start = payload->frame_count ? payload->timings[0].t_start : 0;
    cv_auto_free char *key = NULL;
    struct stat info;

    CV_TRY(
        cv_object_key(CV_OBJECT_LINES, payload->video_id, &key, error, "%" PRId64 ".pack", start));
    CV_TRY(ocr_pack_place(pack, key, json_object_get(result, "detections"), error));
    if (stat(path, &info) != 0) {
        return cv_fail_errno(error, errno, "read %s", path);
    }
    const struct cv_new_object object = {.key = key, .path = path};
    CV_TRY(cv_stage_put(context, &object, error));
    CV_TRY_MEMORY(json_object_set_new(result, "lines_path", json_string(key)) == 0 &&
                      json_object_set_new(result, "lines_bytes", json_integer(info.st_size)) == 0,
                  error, "a result");
    return 0;
}

static int name_unread(const struct ocr_engine *engine, const char *path, json_t *result,
                       struct cv_error *error)
{
    json_t *unread = json_array();

    CV_TRY_MEMORY(json_object_set_new(result, "unread", unread) == 0, error, "a result");
    return ocr_missing_scripts_in_file(ocr_engine_languages(engine), path, unread, error);
}

/* CV_OCR_OTHER_MODELS: as read_frames. */
static int read_new(struct cv_stage_context *context, const struct ocr_payload *payload,
                    struct ocr_engine *engine, struct cv_reasons *reasons, json_t **ret_result,
                    struct cv_error *error)
{
    cv_auto(ocr_session_free) struct ocr_session *session = NULL;
    cv_auto(ocr_pack_free) struct ocr_pack *pack = NULL;
    cv_auto(ocr_codes_free) struct ocr_codes *codes = NULL;
    cv_auto(json_decref) json_t *found = NULL;
    cv_auto_free char *path = NULL;
    json_t *coded = NULL;

    CV_TRY(ocr_codes_new(&codes, error));
    CV_TRY(ocr_pack_new(cv_stage_scratch(context), ocr_emoji_network_id(), &pack, error));
    CV_TRY(ocr_session_new(engine, payload->timings, payload->frame_count, &session, error));
    ocr_session_keep(session, pack);
    if (payload->with_evidence) {
        cv_reasons_deinit(reasons);
        ocr_session_explain(session, reasons);
        ocr_engine_explain(engine, reasons);
    }
    CV_TRY(read_frames(context, payload, engine, session, codes, error));
    CV_TRY(ocr_session_finish(session, payload->min_confidence, &found, error));
    CV_TRY(write_pack(context, pack, &path, error));
    CV_TRY(name_unread(engine, path, found, error));
    CV_TRY(payload->with_evidence ? 0 : put_pack(context, payload, pack, path, found, error));
    CV_TRY(ocr_codes_finish(codes, &coded, error));
    CV_TRY_MEMORY(json_object_set_new(found, "codes", coded) == 0, error, "a result");
    *ret_result = cv_take(found);
    return 0;
}

/* Where neither the payload nor an operator names models, the engine may take any. */
static int new_engine(const struct ocr_payload *payload, struct ocr_engine **ret_engine,
                      struct cv_error *error)
{
    cv_auto(ocr_defaults_deinit) struct ocr_defaults defaults = {0};
    cv_auto(ocr_engine_free) struct ocr_engine *engine = NULL;
    struct ocr_choice *choice = NULL;

    if (payload->language_count) {
        CV_TRY(ocr_engine_new(payload->languages, payload->language_count, &engine, error));
    } else {
        CV_TRY(ocr_defaults_init(&defaults, error));
        CV_TRY(ocr_engine_new(defaults.names, defaults.count, &engine, error));
    }
    CV_TRY(ocr_choice_new(!payload->language_count && !defaults.text, &choice, error));
    ocr_engine_set_choice(engine, choice);
    *ret_engine = cv_take(engine);
    return 0;
}

int ocr_add_unread(json_t *result, const char *name, json_int_t lines, struct cv_error *error)
{
    json_t *unread = json_object_get(result, "unread");

    if (lines > 0 && json_array_size(unread) < OCR_MISSING_MODELS_MAX) {
        json_t *entry = json_pack("{s:s, s:I}", "script", name, "lines",
                                  cv_min(lines, (json_int_t)OCR_ROWS_MAX));
        CV_TRY_MEMORY(json_array_append_new(unread, entry) == 0, error, "a result");
    }
    return 0;
}

/* Adds what was not read, and the models that read. */
static int complete(const struct ocr_engine *engine, json_t *result, struct cv_error *error)
{
    const char *languages = ocr_engine_languages(engine);

    CV_TRY(ocr_missing_languages(languages, json_object_get(result, "detections"),
                                 json_object_get(result, "unread"), error));
    CV_TRY(ocr_add_unread(result, OCR_TRUNCATED,
                          json_integer_value(json_object_get(result, "truncated")), error));
    CV_TRY_MEMORY(json_object_set_new(result, "languages", json_string(languages)) == 0, error,
                  "a result");
    return 0;
}

int ocr_run(struct cv_stage_context *context, const json_t *given, json_t **ret_result,
            struct cv_error *error)
{
    cv_auto(json_decref) json_t *json = NULL, *found = NULL;
    cv_auto(ocr_payload_deinit) struct ocr_payload payload = {0};
    cv_auto(cv_reasons_deinit) struct cv_reasons reasons = {.list = NULL};
    cv_auto(ocr_engine_free) struct ocr_engine *engine = NULL;

    /* Silences Leptonica, whose messages are not in the form of our log; its failures become
     * errors. */
    (void)setMsgSeverity(L_SEVERITY_NONE);
    CV_TRY(ocr_frame_list_expand(context, given, &json, error));
    CV_TRY(ocr_payload_read(json, &payload, error));
    CV_TRY(new_engine(&payload, &engine, error));
    int result = CV_OCR_OTHER_MODELS;
    while (result == CV_OCR_OTHER_MODELS) {
        result = payload.line_keys ? ocr_read_packs(context, &payload, engine, &found, error)
                                   : read_new(context, &payload, engine, &reasons, &found, error);
    }
    CV_TRY(result);
    CV_TRY(complete(engine, found, error));
    CV_TRY(payload.line_keys || payload.with_evidence
               ? 0
               : ocr_read_subtitles(context, json, &payload, engine, found, error));
    *ret_result = cv_take(found);
    return 0;
}
