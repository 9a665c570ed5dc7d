#include "common/said/said.h"
#include "common/text/text.h"

#include "workers/ocr/pictures/pictures.h"
#include "workers/ocr/reading/reading.h"
#include "workers/ocr/stage.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SIDE_MAX = CV_FRAME_SIDE_MAX * 8, WORD_SCALE = 1000 /* words are per mille of a line */ };

static int bad_result(struct cv_error *error, size_t index, const char *what)
{
    return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "result: detection %zu: %s", index, what);
}

static bool int_within(const json_t *value, int64_t low, int64_t high)
{
    return json_is_integer(value) && json_integer_value(value) >= low &&
           json_integer_value(value) <= high;
}

static bool box_is_good(const json_t *box)
{
    return int_within(json_object_get(box, "x"), 0, SIDE_MAX) &&
           int_within(json_object_get(box, "y"), 0, SIDE_MAX) &&
           int_within(json_object_get(box, "width"), 1, SIDE_MAX) &&
           int_within(json_object_get(box, "height"), 1, SIDE_MAX);
}

/* Absent, or a list of `step` numbers within ±`most` each. */
static bool list_is_good(const json_t *list, size_t step, int64_t most)
{
    if (!list) {
        return true;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!int_within(json_array_get(list, i), -most, most)) {
            return false;
        }
    }
    return json_is_array(list) && json_array_size(list) % step == 0 &&
           json_array_size(list) <= OCR_LINE_BYTES_MAX;
}

/* Whether `key` names kept lines of the video. */
static bool is_pack_of(const json_t *value, const char *video_id)
{
    const char *key = json_string_value(value);

    return key && json_string_length(value) == strlen(key) &&
           cv_object_belongs(CV_OBJECT_LINES, key, video_id);
}

static bool place_is_good(const json_t *row, const char *video_id)
{
    const json_t *key = json_object_get(row, "crop_pack");

    return !key || (is_pack_of(key, video_id) &&
                    int_within(json_object_get(row, "crop_offset"), 0, INT64_MAX) &&
                    int_within(json_object_get(row, "crop_bytes"), 1, OCR_PACK_PICTURE_MAX));
}

/* NULL, or what is wrong with a row that the untrusted stage process sent. */
static const char *find_fault(const json_t *row, const char *video_id)
{
    const json_t *text = json_object_get(row, "text"), *start = json_object_get(row, "t_start");
    const json_t *language = json_object_get(row, "language");
    double confidence = json_number_value(json_object_get(row, "confidence"));

    if (!json_is_string(text) || json_string_length(text) > OCR_LINE_BYTES_MAX ||
        strlen(json_string_value(text)) != json_string_length(text)) {
        return "\"text\" is not a text, or is too long";
    }
    if (!json_is_number(json_object_get(row, "confidence")) || !isfinite(confidence) ||
        confidence < 0 || confidence > 1) {
        return "\"confidence\" is not within 0 and 1";
    }
    if (!json_is_string(language) || json_string_length(language) >= OCR_LANGUAGE_NAME_MAX) {
        return "\"language\" is not the name of a model";
    }
    if (!int_within(start, 0, OCR_TIME_MAX_MS) ||
        !int_within(json_object_get(row, "t_end"), json_integer_value(start),
                    OCR_TIME_MAX_MS + OCR_LAST_FRAME_MS)) {
        return "\"t_start\" and \"t_end\" are not a range of time";
    }
    if (!box_is_good(json_object_get(row, "bounding_box"))) {
        return "\"bounding_box\" is not a box";
    }
    const json_t *end_box = json_object_get(row, "end_box");
    if (end_box && !box_is_good(end_box)) {
        return "\"end_box\" is not a box";
    }
    if (!list_is_good(json_object_get(row, "track"), 3, INT32_MAX)) {
        return "\"track\" is not a path";
    }
    if (!list_is_good(json_object_get(row, "words"), 2, WORD_SCALE)) {
        return "\"words\" is not a list of places";
    }
    return place_is_good(row, video_id) ? NULL : "\"crop_pack\" is not the place of its picture";
}

/* The four numbers of a checked box and nothing else. */
static json_t *copy_box(const json_t *box)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "x", json_integer_value(json_object_get(box, "x")),
                     "y", json_integer_value(json_object_get(box, "y")), "width",
                     json_integer_value(json_object_get(box, "width")), "height",
                     json_integer_value(json_object_get(box, "height")));
}

/* One row of jsonb_to_recordset. */
static int make_row(const json_t *detection, json_t **ret_row, struct cv_error *error)
{
    const char *text = json_string_value(json_object_get(detection, "text"));
    const json_t *end_box = json_object_get(detection, "end_box");

    json_t *row = json_pack("{s:s, s:f, s:s, s:I, s:I, s:o, s:o*}", "text", text, "confidence",
                            json_number_value(json_object_get(detection, "confidence")), "language",
                            json_string_value(json_object_get(detection, "language")), "t_start",
                            json_integer_value(json_object_get(detection, "t_start")), "t_end",
                            json_integer_value(json_object_get(detection, "t_end")), "bounding_box",
                            copy_box(json_object_get(detection, "bounding_box")), "end_box",
                            end_box ? copy_box(end_box) : NULL);
    bool is_whole = row;
    static const char *const as_they_are[] = {"track", "words", "crop_pack", "crop_offset",
                                              "crop_bytes"};
    for (size_t i = 0; is_whole && i < CV_COUNT(as_they_are); i++) {
        json_t *value = json_object_get(detection, as_they_are[i]);
        is_whole = !value || json_object_set(row, as_they_are[i], value) == 0;
    }
    if (!is_whole) {
        json_decref(row);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a row");
    }
    *ret_row = row;
    return 0;
}

static int make_rows(const json_t *detections, const char *video_id, char **ret_rows,
                     struct cv_error *error)
{
    cv_auto(json_decref) json_t *rows = json_array();
    size_t count = json_array_size(detections);

    if (!json_is_array(detections) || count > OCR_ROWS_MAX) {
        return cv_fail(error, CV_ERROR_STAGE_PROTOCOL,
                       "result: \"detections\" is not a list of at most %d rows", OCR_ROWS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *detection = json_array_get(detections, i);
        const char *fault = find_fault(detection, video_id);
        json_t *row = NULL;
        if (fault) {
            return bad_result(error, i, fault);
        }
        CV_TRY(make_row(detection, &row, error));
        CV_TRY_MEMORY(json_array_append_new(rows, row) == 0, error, "rows");
    }
    *ret_rows = rows ? json_dumps(rows, JSON_COMPACT) : NULL;
    CV_TRY_MEMORY(*ret_rows, error, "rows");
    return 0;
}

/* Stores the readings until segment_index uses them; the text that is there stays until then. */
static int put_aside(struct cv_db *db, const struct cv_job *job, const char *rows, json_t *payload,
                     struct cv_error *error)
{
    static const char *const keep =
        "INSERT INTO pending_readings (video_id, detections) VALUES ($1::uuid, $2::jsonb)"
        " ON CONFLICT (video_id) DO UPDATE SET detections = excluded.detections";

    CV_TRY_MEMORY(json_object_set_new(payload, "pending", json_true()) == 0, error, "a payload");
    return cv_db_run(db, NULL, error, keep, job->video_id, rows);
}

static int replace_rows(struct cv_db *db, const struct cv_job *job, const char *rows,
                        struct cv_error *error)
{
    static const char *const insert =
        "INSERT INTO segments (id, video_id, owner_id, team_id, text, normalized_text, text_hash,"
        " confidence, language, t_start, t_end, bounding_box, end_box, track, words,"
        " crop_pack, crop_offset, crop_bytes, detected_by)"
        " SELECT segment_id(v.id, hash, d.t_start, d.bounding_box), v.id, v.owner_id,"
        " v.team_id, d.text, normal, hash, d.confidence, d.language, d.t_start,"
        " d.t_end, d.bounding_box, d.end_box, d.track, d.words, d.crop_pack,"
        " d.crop_offset, d.crop_bytes, j.step || '/' || j.part"
        " FROM videos v, jobs j, jsonb_to_recordset($2::jsonb) AS d(text text,"
        " confidence real, language text, t_start int,"
        " t_end int, bounding_box jsonb, end_box jsonb,"
        " track int[], words smallint[], crop_pack text, crop_offset bigint, crop_bytes int),"
        " LATERAL (SELECT normal_form(d.text) AS normal OFFSET 0) AS n, text_hash(normal) AS hash"
        " WHERE v.id = $1::uuid AND j.id = $3::uuid AND normal <> ''"
        " ORDER BY d.t_end DESC, d.text ON CONFLICT (id) DO NOTHING";
    /* Deletes the rows that an earlier run of this step left, and those that no other step of
     * this run has read: several steps may read one video side by side. */
    static const char *const clear =
        "DELETE FROM segments s USING jobs j WHERE j.id = $2::uuid AND s.video_id = $1::uuid"
        " AND (s.source IN ('screen', 'code') OR s.source = 'subtitle' AND s.detected_by LIKE "
        "'%/%')"
        " AND (s.detected_by IS NULL OR s.detected_by = j.step "
        "|| '/' || "
        "j.part"
        " OR NOT EXISTS (SELECT FROM jobs other WHERE other.run_id = j.run_id"
        " AND other.job_type = j.job_type AND other.step || '/' || other.part = s.detected_by))";

    /* Makes this part searchable at once when `sample` hands on a long video in parts.
     * segment_index merges the parts when all are there. */
    static const char *const publish =
        "SELECT refresh_search_materialized(j.video_id) FROM jobs j WHERE j.id = $1::uuid"
        " AND EXISTS (SELECT FROM jobs other WHERE other.run_id = j.run_id AND other.step = j.step"
        " AND other.part <> j.part AND other.status <> 'done' AND other.depends_on IS NOT NULL)";

    CV_TRY(cv_db_run(db, NULL, error, clear, job->video_id, job->id));
    CV_TRY(cv_db_run(db, NULL, error, insert, job->video_id, rows, job->id));
    return cv_db_run(db, NULL, error, publish, job->id);
}

/* Deletes from a table the video's rows of this part of the run ($2 is the job) and those of
 * earlier runs. */
#define CLEAR(table)                                                                       \
    "DELETE FROM " table " p USING jobs j WHERE j.id = $2::uuid AND p.video_id = $1::uuid" \
    " AND (p.read_by = j.step || '/' || j.part"                                            \
    " OR NOT EXISTS (SELECT FROM jobs other WHERE other.run_id = j.run_id"                 \
    " AND other.job_type = j.job_type AND other.step || '/' || other.part = p.read_by))"

static bool unread_is_good(const json_t *unread)
{
    for (size_t i = 0; i < json_array_size(unread); i++) {
        const json_t *script = json_object_get(json_array_get(unread, i), "script");
        const char *name = json_string_value(script);
        if (!name || !name[0] || json_string_length(script) >= OCR_LANGUAGE_NAME_MAX ||
            name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")] ||
            !int_within(json_object_get(json_array_get(unread, i), "lines"), 1, OCR_ROWS_MAX)) {
            return false;
        }
    }
    return json_is_array(unread) && json_array_size(unread) <= OCR_MISSING_MODELS_MAX;
}

/* Stores which scripts no model could read, also while the text of a new run waits for
 * segment_index. */
static int record_unread(struct cv_db *db, const struct cv_job *job, const json_t *unread,
                         struct cv_error *error)
{
    static const char *const insert =
        "INSERT INTO unread_lines (video_id, read_by, script, lines)"
        " SELECT $1::uuid, j.step || '/' || j.part, u.script, u.lines"
        " FROM jobs j, jsonb_to_recordset($3::jsonb) AS u(script text, lines int)"
        " WHERE j.id = $2::uuid ON CONFLICT DO NOTHING";

    if (!unread_is_good(unread)) {
        return cv_fail(error, CV_ERROR_STAGE_PROTOCOL,
                       "result: \"unread\" is not a list of scripts with their lines");
    }
    CV_TRY(cv_db_run(db, NULL, error, CLEAR("unread_lines"), job->video_id, job->id));
    if (json_array_size(unread) == 0) {
        return 0;
    }
    cv_auto_free char *rows = json_dumps(unread, JSON_COMPACT);
    CV_TRY_MEMORY(rows, error, "the names of scripts");
    return cv_db_run(db, NULL, error, insert, job->video_id, job->id, rows);
}

/* Stores where the pack with the lines of this part lies, in place of the packs of earlier runs. */
static int record_pack(struct cv_db *db, const struct cv_job *job, const json_t *result,
                       struct cv_error *error)
{
    static const char *const insert =
        "INSERT INTO line_packs AS p (video_id, key, read_by, size_bytes)"
        " SELECT $1::uuid, $3, j.step || '/' || j.part, $4::bigint FROM jobs j WHERE j.id = "
        "$2::uuid"
        " ON CONFLICT (video_id, key) DO UPDATE SET read_by = excluded.read_by,"
        " size_bytes = excluded.size_bytes, created_at = now()";
    const json_t *path = json_object_get(result, "lines_path");
    const json_t *bytes = json_object_get(result, "lines_bytes");
    char size[24];

    if (!path) {
        return 0; /* lines that were read from a pack */
    }
    const char *key = json_string_value(path);
    if (!is_pack_of(path, job->video_id) || !int_within(bytes, 0, INT64_MAX)) {
        return cv_fail(error, CV_ERROR_STAGE_PROTOCOL,
                       "result: \"lines_path\" is not a key of the video's lines");
    }
    (void)snprintf(size, sizeof(size), "%" PRId64, (int64_t)json_integer_value(bytes));
    CV_TRY(cv_db_run(db, NULL, error, CLEAR("line_packs"), job->video_id, job->id));
    return cv_db_run(db, NULL, error, insert, job->video_id, job->id, key, size);
}

/* Stores lines of a source in place of those that this step and part has read before. */
static int store_said(struct cv_db *db, const struct cv_job *job, const char *source,
                      const json_t *lines, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *step = NULL;

    CV_TRY(cv_db_run(db, &step, error,
                     "SELECT step || '/' || part AS name FROM jobs WHERE id = $1::uuid", job->id));
    return cv_said_store(db, job->video_id, source, cv_db_text(step, 0, "name"), lines, true,
                         error);
}

/* Stores the codes of this part, which a run over kept pictures of lines does not look for. */
static int record_codes(struct cv_db *db, const struct cv_job *job, const json_t *codes,
                        struct cv_error *error)
{
    if (!codes) {
        return 0;
    }
    for (size_t i = 0; i < json_array_size(codes); i++) {
        json_t *code = json_array_get(codes, i);
        const json_t *box = json_object_get(code, "bounding_box");
        const json_t *end_box = json_object_get(code, "end_box");
        if (!box_is_good(box) || (end_box && !box_is_good(end_box))) {
            return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "result: code %zu has no good box", i);
        }
        CV_TRY_MEMORY(
            json_object_set_new(code, "bounding_box", copy_box(box)) == 0 &&
                (!end_box || json_object_set_new(code, "end_box", copy_box(end_box)) == 0),
            error, "codes");
    }
    return store_said(db, job, "code", codes, error);
}

int ocr_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
               struct cv_error *error)
{
    cv_auto_free char *rows = NULL;
    cv_auto(json_decref) json_t *payload = json_pack("{s:s}", "video_id", job->video_id);
    const json_t *subtitles = json_object_get(result, "subtitles");

    CV_TRY_MEMORY(payload, error, "a payload");
    CV_TRY(make_rows(json_object_get(result, "detections"), job->video_id, &rows, error));
    CV_TRY(record_pack(db, job, result, error));
    CV_TRY(record_unread(db, job, json_object_get(result, "unread"), error));
    CV_TRY(ocr_payload_is_again(job->payload) ? put_aside(db, job, rows, payload, error)
                                              : replace_rows(db, job, rows, error));
    CV_TRY(record_codes(db, job, json_object_get(result, "codes"), error));
    CV_TRY(subtitles ? store_said(db, job, "subtitle", subtitles, error) : 0);
    return cv_queue_enqueue_successor(db, job, "segment_index", payload, error);
}
