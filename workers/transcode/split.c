#include "workers/transcode/transcode.h"

#include <inttypes.h>
#include <string.h>

enum {
    US_PER_MS = 1000,
    SPLIT_MIN_S = 8, /* two segments; so short only for tests */
    SPLIT_MAX_S = 24 * 60 * 60,
    PREROLL_US = 1000 * 1000, /* how much a chunk decodes before its start */
    NAME_SIZE = 32,
    /* Lower than any long recording: a still picture, sent once a second, takes some 100 bytes per
     * second in H.264. A file with fewer bytes per second is not split. */
    BYTES_PER_SECOND_MIN = 500,
};

/* ---- the payload ----------------------------------------------------------------------------- */

static int fail_chunks(struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                   "payload: \"chunks\" is not a list of {number, from, until}");
}

static int read_chunk(const json_t *value, struct cv_ladder_chunk *chunk, struct cv_error *error)
{
    int64_t number, from_ms, until_ms;
    const int64_t longest_ms = INT64_C(3600) * 1000 * CV_MEDIA_HOURS_MAX;
    CV_TRY(json_is_object(value) ? 0 : fail_chunks(error));
    CV_TRY(cv_payload_int(value, "number", 0, TRANSCODE_CHUNKS_MAX, &number, error));
    CV_TRY(cv_payload_int(value, "from", 0, longest_ms, &from_ms, error));
    CV_TRY(cv_payload_int_or(value, "until", 0, 0, longest_ms, &until_ms, error));
    *chunk = (struct cv_ladder_chunk){(int)number, from_ms * US_PER_MS,
                                      until_ms > 0 ? until_ms * US_PER_MS : INT64_MAX};
    bool fits = chunk->from_us % CV_LADDER_CHUNK_US == 0 && chunk->until_us > chunk->from_us &&
                (until_ms == 0 || chunk->until_us % CV_LADDER_CHUNK_US == 0);
    return fits ? 0 : fail_chunks(error);
}

static int read_chunks(const json_t *payload, struct transcode_request *request,
                       struct cv_error *error)
{
    const json_t *list = json_object_get(payload, "chunks");
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > TRANSCODE_CHUNKS_MAX ||
        (request->split == TRANSCODE_CHUNK && count > 1)) {
        return fail_chunks(error);
    }
    request->chunks = calloc(count + 1, sizeof(*request->chunks));
    CV_TRY_MEMORY(request->chunks, error, "chunks");
    for (size_t i = 0; i < count; i++) {
        CV_TRY(read_chunk(json_array_get(list, i), &request->chunks[i], error));
    }
    request->chunk_count = count;
    return 0;
}

int transcode_read_split(const json_t *payload, struct transcode_request *request,
                         struct cv_error *error)
{
    static const char *const names[] = {"", "plan", "chunk", "join"};
    const json_t *value = json_object_get(payload, "split");
    if (!value || json_is_null(value)) {
        return 0;
    }
    const char *name = json_string_value(value);
    for (size_t i = TRANSCODE_PLAN; name && i < CV_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0) {
            request->split = (enum transcode_split)i;
        }
    }
    if (request->split == TRANSCODE_WHOLE) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"split\" is \"plan\", \"chunk\" or \"join\"");
    }
    if (request->split != TRANSCODE_PLAN) {
        return read_chunks(payload, request, error);
    }
    int64_t seconds;
    int result =
        cv_payload_int(payload, "split_seconds", SPLIT_MIN_S, SPLIT_MAX_S, &seconds, error);
    request->split_us = result ? 0 : seconds * AV_TIME_BASE;
    return result;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Finds the duration to plan for. A header may claim days, so the plan ends where the last packets
 * end, and is no longer than the bytes of the file allow. The last chunk has no end, so that
 * nothing is lost if the file is longer. */
static int find_planned(struct cv_decoder *decoder, int64_t bytes, int64_t split_us,
                        int64_t *ret_planned_us, struct cv_error *error)
{
    const struct cv_media_info *info = cv_decoder_info(decoder);
    int64_t held_s = bytes / BYTES_PER_SECOND_MIN;
    int64_t planned_us =
        info->duration_us / AV_TIME_BASE < held_s ? info->duration_us : held_s * AV_TIME_BASE;
    int64_t end_us = 0;
    if (cv_can_seek(info) && planned_us > split_us) {
        CV_TRY(cv_decoder_find_end(decoder, &end_us, error));
        planned_us = end_us < planned_us ? end_us : planned_us;
    }
    *ret_planned_us = planned_us;
    return 0;
}

/* Splits into chunks of equal length; the rest becomes another chunk if it is at least half as
 * long. */
static json_t *chunks_to_json(const struct cv_media_info *info, int64_t duration_us,
                              int64_t split_us)
{
    json_t *list = json_array();
    int64_t length_us =
        (split_us + CV_LADDER_CHUNK_US - 1) / CV_LADDER_CHUNK_US * CV_LADDER_CHUNK_US;
    int64_t least_us = duration_us / TRANSCODE_CHUNKS_MAX;
    if (length_us < least_us) {
        length_us = (least_us / CV_LADDER_CHUNK_US + 1) * CV_LADDER_CHUNK_US;
    }
    int64_t count = (duration_us + length_us / 2) / length_us;
    if (!cv_can_seek(info) || duration_us <= split_us || count < 2) {
        return list;
    }
    for (int64_t i = 0; list && i < count; i++) {
        json_t *chunk = json_pack("{s:I, s:I}", "number", (json_int_t)i, "from",
                                  (json_int_t)(i * length_us / US_PER_MS));
        bool is_last = i + 1 == count;
        json_t *until = json_integer((json_int_t)((i + 1) * length_us / US_PER_MS));
        if (is_last) {
            json_decref(until);
            until = json_null();
        }
        if (json_object_set_new(chunk, "until", until) != 0 ||
            json_array_append_new(list, chunk) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* The plan fixes the renditions, because the workers of the chunks may have other settings. */
static json_t *renditions_to_json(const struct transcode_request *request, bool is_screen)
{
    static const int usual[] = {1080, 720, 480, 360};
    bool is_asked = request->short_side_count > 0;
    const int *sides = is_asked ? request->short_sides : usual;
    size_t count = is_asked    ? request->short_side_count
                   : is_screen ? CV_COUNT(usual) - 2
                               : CV_COUNT(usual);
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) {
        if (json_array_append_new(list, json_integer(sides[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

int transcode_run_plan(struct cv_stage_context *context, const struct transcode_request *request,
                       json_t **ret_result, struct cv_error *error)
{
    cv_auto(transcode_input_close) struct transcode_input input = {0};
    const struct cv_decoder_params params = {.threads = 1, .cancel = cv_stage_cancel(context)};
    CV_TRY(transcode_input_open(context, request, &params, &input, error));
    int64_t planned_us = 0;
    CV_TRY(find_planned(input.decoder, input.source.size, request->split_us, &planned_us, error));
    bool is_screen = false;
    if (request->short_side_count == 0) {
        CV_TRY(transcode_find_content(&input.source, cv_stage_cancel(context), &is_screen, error));
    }
    const struct cv_media_info *info = cv_decoder_info(input.decoder);
    const struct transcode_work work = {.context = context, .request = request};
    struct cv_ladder_params ladder = transcode_ladder_params(&work, &input);
    ladder.for_reading = is_screen;
    char reason[CV_LADDER_REASON_SIZE] = "";
    bool copies = transcode_copies(request, &ladder, &input, reason);
    json_t *object =
        json_pack("{s:f, s:s, s:o, s:o, s:b, s:s*}", "duration", (double)info->duration_us / 1e6,
                  "segments", request->format == CV_SEGMENT_MP4 ? "fmp4" : "ts", "renditions",
                  renditions_to_json(request, is_screen), "chunks",
                  chunks_to_json(info, planned_us, request->split_us), "copy", copies,
                  "encoded_because", copies ? NULL : reason);
    CV_TRY_MEMORY(object, error, "the result");
    *ret_result = object;
    return 0;
}

/* ---- one chunk ------------------------------------------------------------------------------- */

static void chunk_name(int number, char name[NAME_SIZE])
{
    (void)snprintf(name, NAME_SIZE, "chunk_%05d.json", number);
}

static int store_chunk(struct transcode_publisher *publisher, const struct cv_ladder_chunk *chunk,
                       const struct transcode_meter *meter, int64_t damaged, const char *text,
                       const char *encoded_because, struct cv_error *error)
{
    cv_auto(json_decref) json_t *note =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "ladder", text, "frames",
                  (json_int_t)meter->frames, "first_us", (json_int_t)meter->first_us, "last_us",
                  (json_int_t)meter->last_us, "shortest_us", (json_int_t)meter->shortest_us,
                  "longest_us", (json_int_t)meter->longest_us, "damaged", (json_int_t)damaged,
                  "encoded_because", encoded_because);
    cv_auto_free char *data = note ? json_dumps(note, JSON_COMPACT) : NULL;
    CV_TRY_MEMORY(data, error, "a chunk");
    char name[NAME_SIZE];
    chunk_name(chunk->number, name);
    return transcode_publisher_put(publisher, CV_LADDER_STREAM, name, data, strlen(data), error);
}

/* Makes the request's chunk. It is encoded if `reason` says why it cannot be copied.
 * CV_LADDER_UNSUITABLE: it turned out that it cannot be copied, and `reason` says why. */
static int encode_chunk(const struct transcode_work *work, struct transcode_meter *meter,
                        char reason[CV_LADDER_REASON_SIZE], struct cv_error *error)
{
    const struct cv_ladder_chunk *chunk = &work->request->chunks[0];
    const struct cv_decoder_params params = {
        .threads = 1 + cv_stage_threads(work->context) / TRANSCODE_ENCODE_TO_DECODE,
        .cancel = cv_stage_cancel(work->context),
        .sound =
            chunk->until_us == INT64_MAX, /* the last picture may be shown until the sound ends */
        .all_sound = true,
        .whole = true,
        .torn = true,
    };
    cv_auto(transcode_input_close) struct transcode_input input = {0};
    CV_TRY(transcode_input_open(work->context, work->request, &params, &input, error));
    if (chunk->from_us > 0) {
        CV_TRY(cv_decoder_seek(input.decoder, chunk->from_us - PREROLL_US, error));
    }
    struct cv_ladder_params ladder_params = transcode_ladder_params(work, &input);
    ladder_params.chunk = chunk;
    if (transcode_copies(work->request, &ladder_params, &input, reason)) {
        ladder_params.copied = cv_decoder_codec(input.decoder);
    }
    cv_auto(cv_ladder_free) struct cv_ladder *ladder = NULL;
    cv_auto_free char *text = NULL;
    CV_TRY(cv_ladder_new(&ladder_params, &ladder, error));
    if (ladder_params.copied) {
        cv_decoder_set_watch(input.decoder, cv_ladder_packet, ladder);
    }
    int result = transcode_convert(work->context, input.decoder, ladder, chunk, meter, error);
    if (result == 0 && cv_decoder_is_cut_off(input.decoder)) {
        cv_ladder_refuse(ladder, "it is cut off");
    }
    result = result ? result : cv_ladder_finish_chunk(ladder, &text, error);
    if (result == CV_LADDER_UNSUITABLE) {
        (void)snprintf(reason, CV_LADDER_REASON_SIZE, "%s", cv_ladder_refusal(ladder));
    }
    return result ? result
                  : store_chunk(work->publisher, chunk, meter,
                                cv_decoder_damaged_frames(input.decoder), text, reason, error);
}

int transcode_run_chunk(const struct transcode_work *work, struct transcode_report *report,
                        json_t **ret_result, struct cv_error *error)
{
    struct transcode_meter meter = {0};
    const struct transcode_request *request = work->request;
    int result = request->chunk_count > 0
                     ? encode_chunk(work, &meter, report->encoded_because, error)
                     : 0; /* a short video is converted whole by the joining job */
    CV_TRY(result);
    json_t *object = json_pack("{s:I, s:I}", "chunks", (json_int_t)request->chunk_count, "frames",
                               (json_int_t)meter.frames);
    CV_TRY_MEMORY(object, error, "the result");
    *ret_result = object;
    return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Adds up the measurements of two parts of the video. */
static void add_meter(struct transcode_meter *all, const struct transcode_meter *next)
{
    if (all->frames == 0 || next->frames == 0) {
        *all = all->frames == 0 ? *next : *all;
        return;
    }
    int64_t between_us = next->first_us - all->last_us;
    int64_t shortest_us =
        all->shortest_us < next->shortest_us ? all->shortest_us : next->shortest_us;
    int64_t longest_us = all->longest_us > next->longest_us ? all->longest_us : next->longest_us;
    all->shortest_us = between_us < shortest_us ? between_us : shortest_us;
    all->longest_us = between_us > longest_us ? between_us : longest_us;
    all->last_us = next->last_us;
    all->frames += next->frames;
}

static int load_chunk(struct transcode_publisher *publisher, int number, json_t **ret_note,
                      struct cv_error *error)
{
    char name[NAME_SIZE];
    cv_auto_free void *data = NULL;
    size_t size = 0;
    chunk_name(number, name);
    CV_TRY(transcode_publisher_get(publisher, CV_LADDER_STREAM, name, &data, &size, error));
    *ret_note = json_loadb(data, size, 0, NULL);
    return json_is_object(*ret_note) ? 0
                                     : cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                                               "%s is not the description of a chunk", name);
}

/* Either all chunks are copied or none. CV_LADDER_UNSUITABLE if a chunk that was to be copied was
 * encoded; report->encoded_because says why. A chunk that was copied is encoded again if all must
 * be. */
static int settle_copy(const struct transcode_work *work, int number, bool copies,
                       struct transcode_report *report, struct cv_error *error)
{
    cv_auto(json_decref) json_t *note = NULL;
    CV_TRY(load_chunk(work->publisher, number, &note, error));
    const char *reason = json_string_value(json_object_get(note, "encoded_because"));
    bool is_copied = reason && reason[0] == '\0';
    if (is_copied == copies) {
        return 0;
    }
    if (copies) {
        (void)snprintf(report->encoded_because, sizeof(report->encoded_because), "%s",
                       reason ? reason : "its pieces were encoded");
        return CV_LADDER_UNSUITABLE;
    }
    struct transcode_request request = *work->request;
    cv_auto(transcode_publisher_free) struct transcode_publisher *publisher = NULL;
    struct transcode_meter ignored = {0};
    request.split = TRANSCODE_CHUNK;
    request.chunks = &work->request->chunks[number];
    request.chunk_count = 1;
    CV_TRY(transcode_publisher_new(work->context, request.video_id, &publisher, error));
    struct transcode_work again = {work->context, &request, work->directory, publisher};
    return encode_chunk(&again, &ignored, report->encoded_because, error);
}

static int join_chunk(struct transcode_publisher *publisher, struct cv_ladder *ladder, int number,
                      struct transcode_meter *all, int64_t *damaged, struct cv_error *error)
{
    cv_auto(json_decref) json_t *note = NULL;
    CV_TRY(load_chunk(publisher, number, &note, error));
    const char *text = NULL;
    json_int_t frames, first_us, last_us, shortest_us, longest_us, own_damaged;
    if (json_unpack(note, "{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "ladder", &text, "frames", &frames,
                    "first_us", &first_us, "last_us", &last_us, "shortest_us", &shortest_us,
                    "longest_us", &longest_us, "damaged", &own_damaged) != 0) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "chunk %d has left no figures", number);
    }
    struct transcode_meter meter = {frames, first_us, last_us, shortest_us, longest_us};
    add_meter(all, &meter);
    *damaged += own_damaged;
    return cv_ladder_join(ladder, text, error);
}

static int put_poster(struct transcode_publisher *publisher, int chunk, struct cv_error *error)
{
    char name[NAME_SIZE];
    cv_auto_free void *data = NULL;
    size_t size = 0;
    (void)snprintf(name, sizeof(name), "chunk_%05d.jpg", chunk);
    CV_TRY(transcode_publisher_get(publisher, CV_LADDER_THUMBS, name, &data, &size, error));
    return transcode_publisher_put(publisher, CV_LADDER_THUMBS, "poster.jpg", data, size, error);
}

int transcode_run_join(const struct transcode_work *work, struct transcode_report *report,
                       struct cv_error *error)
{
    const struct transcode_request *request = work->request;
    const struct cv_decoder_params params = {
        .threads = 1,
        .cancel = cv_stage_cancel(work->context),
        .sound = true,
        .all_sound = true,
        .sound_alone = true,
    };
    cv_auto(transcode_input_close) struct transcode_input input = {0};
    CV_TRY(transcode_input_open(work->context, request, &params, &input, error));
    struct cv_ladder_params ladder_params = transcode_ladder_params(work, &input);
    ladder_params.threads = 1;
    ladder_params.joins = true;
    bool copies = transcode_copies(request, &ladder_params, &input, report->encoded_because);
    ladder_params.copied = copies ? cv_decoder_codec(input.decoder) : NULL;
    cv_auto(cv_ladder_free) struct cv_ladder *ladder = NULL;
    struct transcode_meter meter = {0}, none = {0};
    struct cv_ladder_chunk range = {0, 0, INT64_MAX};
    int result = cv_ladder_new(&ladder_params, &ladder, error);
    for (size_t i = 0; result == 0 && i < request->chunk_count; i++) {
        result = settle_copy(work, (int)i, copies, report, error);
        result = result ? result
                        : join_chunk(work->publisher, ladder, (int)i, &meter,
                                     &report->damaged_frames, error);
    }
    if (result == CV_LADDER_UNSUITABLE) {
        return result;
    }
    result = result ? result
                    : transcode_convert(work->context, input.decoder, ladder, &range, &none, error);
    result = result ? result : cv_ladder_finish(ladder, &report->summary, error);
    CV_TRY(result ? result : put_poster(work->publisher, cv_ladder_poster_chunk(ladder), error));
    transcode_conclude(&meter, report);
    report->info = *cv_decoder_info(input.decoder);
    report->truncated = cv_decoder_is_cut_off(input.decoder);
    return 0;
}
