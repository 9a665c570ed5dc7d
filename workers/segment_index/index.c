#include "workers/segment_index/index.h"

#include "common/text/text.h"

#include "workers/segment_index/merge/merge.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

/* ---- the stage's side ------------------------------------------------------------------------ */

/* Segments between two reports of progress. */
enum { PROGRESS_EVERY = 256 };

/* A video's rows of `segments`; texts are borrowed from the result. */
struct rows {
    struct cv_db_result *result;
    struct cv_detection *detections;
    size_t count;
};

static void rows_deinit(struct rows *rows)
{
    free(rows->detections);
    cv_db_result_free(rows->result);
}
CV_DEFINE_CLEANUP_ADDRESS(struct rows, rows_deinit)

/* A coordinate or size, limited so that sums of two never overflow. */
static int pixels_within(int64_t value)
{
    const int64_t most = INT_MAX / 64;
    return (int)(value > most ? most : value < -most ? -most : value);
}

static int pixels(const struct cv_db_result *result, int row, const char *column)
{
    return pixels_within(cv_db_int(result, row, column, 0));
}

static struct cv_detection read_row(const struct cv_db_result *result, int row)
{
    return (struct cv_detection){
        .text = cv_db_text(result, row, "text"),
        .normalized = cv_db_text(result, row, "normalized_text"),
        .language = cv_db_text(result, row, "language"),
        .confidence = cv_db_double(result, row, "confidence", 0),
        .t_start_ms = cv_db_int(result, row, "t_start", 0),
        .t_end_ms = cv_db_int(result, row, "t_end", 0),
        .box = {pixels(result, row, "x"), pixels(result, row, "y"), pixels(result, row, "width"),
                pixels(result, row, "height")},
        .end_box = {pixels(result, row, "end_x"), pixels(result, row, "end_y"),
                    pixels(result, row, "end_width"), pixels(result, row, "end_height")},
        .source = row,
    };
}

/* The table of a video's detections: `segments`, or, when the video is read again,
 * `pending_readings` until they replace the existing text. They are distinguished and ordered like
 * rows of `segments`; of several with one id the longest counts, as in replace_video_text(). */
static const char from_segments[] = "segments WHERE video_id = $1::uuid AND source = 'screen'";
#define FROM_READINGS(readings)                                                                   \
    "(SELECT DISTINCT ON (id) segment_id(p.video_id, text_hash(normalized_text), d.t_start,"      \
    " d.bounding_box) AS id, d.*, normalized_text"                                                \
    " FROM " readings " p, jsonb_to_recordset(p.detections) AS d (text text,"                     \
    " confidence real, language text, t_start int, t_end int, bounding_box jsonb, end_box jsonb," \
    " track int[], words smallint[], crop_pack text, crop_offset bigint, crop_bytes int),"        \
    " LATERAL (SELECT normal_form(d.text) AS normalized_text OFFSET 0) AS n"                      \
    " WHERE p.video_id = $1::uuid AND normalized_text <> ''"                                      \
    " ORDER BY id, d.t_end DESC, d.text) AS d"
static const char from_pending[] = FROM_READINGS("pending_readings");
static const char from_payload[] =
    FROM_READINGS("(SELECT $1::uuid AS video_id, $3::jsonb AS detections)");

/* `given`: "detections" of the payload, NULL if it has none. */
static int read_rows(struct cv_db *db, const char *video_id, bool is_pending, const char *given,
                     struct rows *ret_rows, struct cv_error *error)
{
    static const char columns[] =
        "SELECT text, normalized_text, language, confidence, t_start, t_end,"
        " bounding_box IS NOT NULL AS has_box,"
        " (bounding_box ->> 'x')::float8::bigint AS x,"
        " (bounding_box ->> 'y')::float8::bigint AS y,"
        " (bounding_box ->> 'width')::float8::bigint AS width,"
        " (bounding_box ->> 'height')::float8::bigint AS height,"
        " (end_box ->> 'x')::float8::bigint AS end_x,"
        " (end_box ->> 'y')::float8::bigint AS end_y,"
        " (end_box ->> 'width')::float8::bigint AS end_width,"
        " (end_box ->> 'height')::float8::bigint AS end_height,"
        " to_json(words) AS words, to_json(track) AS track, crop_pack, crop_offset, crop_bytes";
    cv_auto_free char *sql = NULL;
    CV_TRY(cv_format(&sql, error, "%s FROM %s ORDER BY t_start, id LIMIT $2::bigint", columns,
                     given        ? from_payload
                     : is_pending ? from_pending
                                  : from_segments));
    cv_auto(rows_deinit) struct rows rows = {0};
    struct cv_db_number most = cv_db_number(CV_MERGE_MAX + 1);
    CV_TRY(given ? cv_db_run(db, &rows.result, error, sql, video_id, most.text, given)
                 : cv_db_run(db, &rows.result, error, sql, video_id, most.text));
    rows.count = (size_t)cv_db_rows(rows.result);
    rows.detections = calloc(rows.count + 1, sizeof(*rows.detections));
    CV_TRY_MEMORY(rows.detections, error, "detections");
    for (size_t i = 0; i < rows.count; i++) {
        rows.detections[i] = read_row(rows.result, (int)i);
    }
    *ret_rows = rows;
    rows = (struct rows){0};
    return 0;
}

static int check_video(struct cv_db *db, const char *video_id, bool is_pending,
                       struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *found = NULL;
    CV_TRY(cv_db_run(db, &found, error,
                     "SELECT EXISTS (SELECT FROM pending_readings p WHERE p.video_id = v.id)"
                     " AS has_pending FROM videos v WHERE id = $1::uuid",
                     video_id));
    if (cv_db_rows(found) == 0) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "video %s does not exist", video_id);
    }
    if (is_pending && !cv_db_bool(found, 0, "has_pending")) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "there is no new text of video %s",
                       video_id);
    }
    return 0;
}

/* The words of the segment, and the place of the picture that its text was read from. */
static bool add_picture(const struct cv_db_result *result, int row, json_t *segment)
{
    const char *words = cv_db_text(result, row, "words");
    const char *pack = cv_db_text(result, row, "crop_pack");

    if (words && json_object_set_new(segment, "words", json_loads(words, 0, NULL))) {
        return false;
    }
    json_int_t offset = cv_db_int(result, row, "crop_offset", 0);
    json_int_t bytes = cv_db_int(result, row, "crop_bytes", 0);
    return !pack || (json_object_set_new(segment, "crop_pack", json_string(pack)) == 0 &&
                     json_object_set_new(segment, "crop_offset", json_integer(offset)) == 0 &&
                     json_object_set_new(segment, "crop_bytes", json_integer(bytes)) == 0);
}

/* Appends the path of one detection: its track, or a straight line from its box to its end box. */
static int append_way(const struct rows *rows, size_t which, struct cv_path *path,
                      struct cv_error *error)
{
    assert(rows->detections);
    const struct cv_detection *seen = &rows->detections[which];
    const char *text = cv_db_text(rows->result, (int)seen->source, "track");
    cv_auto(json_decref) json_t *list = text ? json_loads(text, 0, NULL) : NULL;
    struct cv_path_point at = {0, 0, 0};

    for (size_t i = 0; i + 2 < json_array_size(list); i += 3) {
        at.t_ms += json_integer_value(json_array_get(list, i));
        at.x += (int)json_integer_value(json_array_get(list, i + 1));
        at.y += (int)json_integer_value(json_array_get(list, i + 2));
        CV_TRY(i == 0 ? cv_path_add(path, at.t_ms, at.x, at.y, error)
                      : cv_path_go(path, at.t_ms, at.x, at.y, error));
    }
    if (list) {
        return 0;
    }
    CV_TRY(cv_path_add(path, seen->t_start_ms, seen->box.x, seen->box.y, error));
    return seen->end_box.width > 0
               ? cv_path_go(path, seen->t_end_ms, seen->end_box.x, seen->end_box.y, error)
               : 0;
}

/* Joins the paths of the segment's detections: `first` and those that follow it in `chain`.
 * *ret_track is NULL if the text did not move. */
static int track_json(const struct rows *rows, size_t first, const size_t *chain,
                      json_t **ret_track, struct cv_error *error)
{
    cv_auto(cv_path_deinit) struct cv_path path = {0};

    *ret_track = NULL;
    assert(rows->detections);
    if (first != SIZE_MAX && chain[first] == SIZE_MAX) {
        const char *text = cv_db_text(rows->result, (int)rows->detections[first].source, "track");
        if (text) {
            *ret_track = json_loads(text, 0, NULL);
            CV_TRY_MEMORY(*ret_track, error, "a path");
            return 0;
        }
    }
    for (size_t i = first; i != SIZE_MAX; i = chain[i]) {
        CV_TRY(append_way(rows, i, &path, error));
    }
    cv_path_simplify(&path);
    return cv_path_json(&path, 1, ret_track, error);
}

static json_t *segment_json(const struct rows *rows, const struct cv_detection *segment,
                            const struct cv_entity_list *list)
{
    bool has_box = cv_db_bool(rows->result, (int)segment->source, "has_box");
    bool moved = memcmp(&segment->box, &segment->end_box, sizeof(segment->box)) != 0;
    json_t *box = has_box ? cv_box_json(&segment->box) : json_null();
    json_t *end_box = has_box && moved ? cv_box_json(&segment->end_box) : json_null();
    json_t *json =
        json_pack("{s:s, s:s?, s:f, s:I, s:I, s:o, s:o, s:o}", "text", segment->text, "language",
                  segment->language, "confidence", segment->confidence, "t_start",
                  (json_int_t)segment->t_start_ms, "t_end", (json_int_t)segment->t_end_ms,
                  "bounding_box", box, "end_box", end_box, "entities", cv_entities_json(list));
    if (json && !add_picture(rows->result, (int)segment->source, json)) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* The detections of each segment, in order, as linked lists: the first one, and for each detection
 * the next one; SIZE_MAX ends a list. */
static void chain_parts(size_t count, const size_t *parts, size_t segment_count, size_t *firsts,
                        size_t *chain)
{
    for (size_t i = 0; i < segment_count; i++) {
        firsts[i] = SIZE_MAX;
    }
    for (size_t i = count; i-- > 0;) {
        if (parts[i] < segment_count) {
            chain[i] = firsts[parts[i]];
            firsts[parts[i]] = i;
        }
    }
}

/* Finds entities in the text as it was read, not in its normal form, so that a URL keeps its case.
 */
static int describe(struct cv_stage_context *context, const struct rows *rows,
                    const struct cv_detection *segments, size_t count, const size_t *parts,
                    json_t **ret_list, size_t *ret_entities, struct cv_error *error)
{
    cv_auto_free size_t *firsts = malloc((count + 1) * sizeof(*firsts));
    cv_auto_free size_t *chain = malloc((rows->count + 1) * sizeof(*chain));
    CV_TRY_MEMORY(firsts && chain, error, "segments");
    chain_parts(rows->count, parts, count, firsts, chain);
    cv_auto(cv_entity_extractor_free) struct cv_entity_extractor *extractor = NULL;
    CV_TRY(cv_entity_extractor_new(&extractor, error));
    cv_auto(json_decref) json_t *list = json_array();
    size_t entities = 0;
    for (size_t i = 0; i < count; i++) {
        cv_auto(cv_entity_list_deinit) struct cv_entity_list found = {0};
        cv_auto(json_decref) json_t *track = NULL;
        CV_TRY(cv_entity_extract(extractor, segments[i].text, &found, error));
        CV_TRY(track_json(rows, firsts[i], chain, &track, error));
        json_t *object = segment_json(rows, &segments[i], &found);
        CV_TRY_MEMORY(json_array_append_new(list, object) == 0 &&
                          (!track || json_object_set(object, "track", track) == 0),
                      error, "segments");
        entities += found.count;
        if (i % PROGRESS_EVERY == 0) {
            cv_stage_progress(context, 0.5 + 0.5 * (double)i / (double)count, "entities");
        }
    }
    *ret_list = cv_take(list);
    *ret_entities = entities;
    return 0;
}

/* ---- paragraphs ------------------------------------------------------------------------------ */

struct text_lines {
    struct cv_text_line *items;
    size_t count;
};

static void text_lines_deinit(struct text_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        free(lines->items[i].places);
    }
    free(lines->items);
}
CV_DEFINE_CLEANUP_ADDRESS(struct text_lines, text_lines_deinit)

static int64_t number_at(const json_t *list, size_t at)
{
    return json_integer_value(json_array_get(list, at));
}

/* Where a segment of the result was: its track, or a straight line from its box to its end box. */
static int read_places(const json_t *segment, struct cv_text_line *line, struct cv_error *error)
{
    const json_t *track = json_object_get(segment, "track");
    const json_t *end = json_object_get(segment, "end_box");
    size_t most = track ? json_array_size(track) / 3 : 2;
    int64_t t_ms = 0, x = 0, y = 0;

    if (!track && !json_is_object(end)) {
        return 0;
    }
    line->places = calloc(most + 1, sizeof(*line->places));
    CV_TRY_MEMORY(line->places, error, "paths");
    for (size_t i = 0; track && i < most; i++) {
        t_ms += number_at(track, 3 * i);
        x += number_at(track, 3 * i + 1);
        y += number_at(track, 3 * i + 2);
        line->places[line->place_count++] =
            (struct cv_text_place){t_ms, pixels_within(x), pixels_within(y)};
    }
    if (!track) {
        line->places[0] = (struct cv_text_place){line->t_start_ms, line->box.x, line->box.y};
        line->places[1] = (struct cv_text_place){
            line->t_end_ms, pixels_within(json_integer_value(json_object_get(end, "x"))),
            pixels_within(json_integer_value(json_object_get(end, "y")))};
        line->place_count = 2;
    }
    return 0;
}

/* Says in each segment that continues another one which segment begins the paragraph, by its place
 * in the list, and the how many-th of its lines this one is. */
static int add_paragraphs(const struct cv_detection *segments, json_t *list, struct cv_error *error)
{
    size_t count = json_array_size(list);
    cv_auto(text_lines_deinit) struct text_lines lines = {0};
    cv_auto_free struct cv_text_position *positions = calloc(count + 1, sizeof(*positions));
    lines.items = calloc(count + 1, sizeof(*lines.items));
    CV_TRY_MEMORY(positions && lines.items, error, "paragraphs");
    for (lines.count = 0; lines.count < count; lines.count++) {
        const struct cv_detection *seen = &segments[lines.count];
        const json_t *segment = json_array_get(list, lines.count);
        const json_t *words = json_object_get(segment, "words");
        struct cv_text_line *line = &lines.items[lines.count];
        int64_t share = words ? number_at(words, 1)
                              : (int64_t)(1000 * strcspn(seen->text, " ") / strlen(seen->text));
        bool has_box = json_is_object(json_object_get(segment, "bounding_box"));
        *line = (struct cv_text_line){
            .t_start_ms = seen->t_start_ms,
            .t_end_ms = seen->t_end_ms,
            .box = has_box ? seen->box : (struct cv_box){0},
            .first_word_width = (int)(share * seen->box.width / 1000),
        };
        CV_TRY(read_places(segment, line, error));
    }
    CV_TRY(cv_text_paragraphs(lines.items, count, positions, error));
    for (size_t i = 0; i < count; i++) {
        json_t *segment = json_array_get(list, i);
        CV_TRY_MEMORY(positions[i].number == 0 ||
                          (json_object_set_new(segment, "paragraph",
                                               json_integer((json_int_t)positions[i].first)) == 0 &&
                           json_object_set_new(segment, "paragraph_line",
                                               json_integer((json_int_t)positions[i].number)) == 0),
                      error, "paragraphs");
    }
    return 0;
}

/* Adds {"reasons": those of merging, "merged": [{"text", "t_start", "t_end", "segment"}]}: lines are named by their place in
 * the latter; "segment" is the index of a segment, null for a detection that was left out. */
static int add_reasons(const struct rows *rows, const size_t *parts,
                       const struct cv_reasons *reasons, json_t *result, struct cv_error *error)
{
    cv_auto(json_decref) json_t *merged = json_array();
    for (size_t i = 0; i < rows->count; i++) {
        const struct cv_detection *seen = &rows->detections[i];
        json_t *segment = parts[i] == SIZE_MAX ? NULL : json_integer((json_int_t)parts[i]);
        json_t *entry = json_pack("{s:s, s:I, s:I, s:o?}", "text", seen->text, "t_start",
                                  (json_int_t)seen->t_start_ms, "t_end", (json_int_t)seen->t_end_ms,
                                  "segment", segment);
        CV_TRY_MEMORY(json_array_append_new(merged, entry) == 0, error, "reasons");
    }
    CV_TRY_MEMORY(!reasons->has_failed && json_object_set(result, "merged", merged) == 0 &&
                      (!reasons->list || json_object_set(result, "reasons", reasons->list) == 0),
                  error, "reasons");
    return 0;
}

int index_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
              struct cv_error *error)
{
    struct cv_db *db = cv_stage_db(context);
    const char *video_id = NULL;
    CV_TRY(cv_payload_uuid(payload, "video_id", &video_id, error));
    bool is_pending = json_is_true(json_object_get(payload, "pending"));
    CV_TRY(check_video(db, video_id, is_pending, error));
    const json_t *readings = json_object_get(payload, "detections");
    cv_auto_free char *given = readings ? json_dumps(readings, JSON_COMPACT) : NULL;
    CV_TRY_MEMORY(given || !readings, error, "the detections");
    cv_auto(rows_deinit) struct rows rows = {0};
    CV_TRY(read_rows(db, video_id, is_pending, given, &rows, error));
    cv_stage_progress(context, 0.2, "merge");
    cv_auto_free struct cv_detection *segments = NULL;
    size_t count = 0, entities = 0;
    cv_auto_free size_t *parts = malloc((rows.count + 1) * sizeof(*parts));
    CV_TRY_MEMORY(parts, error, "detections");
    cv_auto(cv_reasons_deinit) struct cv_reasons reasons = {.list = NULL};
    CV_TRY(cv_text_merge(rows.detections, rows.count, &segments, &count, parts,
                         given ? &reasons : NULL, error));
    cv_auto(json_decref) json_t *list = NULL;
    CV_TRY(describe(context, &rows, segments, count, parts, &list, &entities, error));
    CV_TRY(add_paragraphs(segments, list, error));
    *ret_result = json_pack("{s:O, s:{s:I, s:I, s:I}}", "segments", list, "summary", "detections",
                            (json_int_t)rows.count, "segments", (json_int_t)count, "entities",
                            (json_int_t)entities);
    CV_TRY_MEMORY(*ret_result, error, "the result");
    return given ? add_reasons(&rows, parts, &reasons, *ret_result, error) : 0;
}

/* ---- the supervisor's side ------------------------------------------------------------------- */

/* Checks every member of the stage's result: the stage has read text written by strangers, and the
 * result is stored with the rights of the service. */

static int refuse(struct cv_error *error, size_t segment, const char *what)
{
    return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "segment %zu of the result: %s", segment, what);
}

static bool is_text(const json_t *object, const char *key)
{
    return json_string_length(json_object_get(object, key)) > 0;
}

static bool is_time(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) <= INT_MAX;
}

static bool is_box(const json_t *box)
{
    static const char *const sides[] = {"x", "y", "width", "height"};
    if (json_is_null(box)) {
        return true;
    }
    for (size_t i = 0; i < CV_COUNT(sides); i++) {
        const json_t *side = json_object_get(box, sides[i]);
        if (!json_is_integer(side) || llabs(json_integer_value(side)) > INT_MAX) {
            return false;
        }
    }
    return json_object_size(box) == CV_COUNT(sides);
}

/* Whether a value is a list of tuples of `step` numbers from `low` to `high`, or absent. */
static bool is_list(const json_t *list, size_t step, json_int_t low, json_int_t high)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *number = json_array_get(list, i);
        if (!json_is_integer(number) || json_integer_value(number) < low ||
            json_integer_value(number) > high) {
            return false;
        }
    }
    return !list || (json_is_array(list) && json_array_size(list) % step == 0);
}

/* Whether the segment begins a paragraph, or names another one that does. */
static bool is_in_paragraph(const json_t *segment, size_t count)
{
    const json_t *first = json_object_get(segment, "paragraph");
    const json_t *line = json_object_get(segment, "paragraph_line");
    return (!first && !line) ||
           (is_time(first) && (size_t)json_integer_value(first) < count && is_time(line) &&
            json_integer_value(line) > 0 && json_integer_value(line) < CV_PARAGRAPH_MAX);
}

/* Whether the picture is in an object of this video, or there is none. */
static bool is_picture(const json_t *segment, const char *video_id)
{
    const json_t *key = json_object_get(segment, "crop_pack");
    const json_t *offset = json_object_get(segment, "crop_offset");
    const json_t *bytes = json_object_get(segment, "crop_bytes");
    char owner[CV_OBJECT_ID_SIZE];

    if (!key) {
        return true;
    }
    return is_text(segment, "crop_pack") && json_is_integer(offset) &&
           json_integer_value(offset) >= 0 && is_time(bytes) &&
           cv_object_video(CV_OBJECT_LINES, json_string_value(key), owner) &&
           strcasecmp(owner, video_id) == 0;
}

static int check_segment(const json_t *segment, size_t number, const char *video_id,
                         struct cv_error *error)
{
    const json_t *confidence = json_object_get(segment, "confidence");
    const json_t *language = json_object_get(segment, "language");
    const json_t *start = json_object_get(segment, "t_start");
    const json_t *end = json_object_get(segment, "t_end");
    if (!json_is_object(segment) || !json_is_string(json_object_get(segment, "text"))) {
        return refuse(error, number, "no text");
    }
    if (!json_is_string(language) && !json_is_null(language)) {
        return refuse(error, number, "no language");
    }
    if (!json_is_number(confidence) || !(json_number_value(confidence) >= 0) ||
        !(json_number_value(confidence) <= 1)) {
        return refuse(error, number, "confidence is not within 0 and 1");
    }
    if (!is_time(start) || !is_time(end) || json_integer_value(end) < json_integer_value(start)) {
        return refuse(error, number, "no range of time");
    }
    if (!is_box(json_object_get(segment, "bounding_box")) ||
        !is_box(json_object_get(segment, "end_box"))) {
        return refuse(error, number, "no box");
    }
    if (!is_list(json_object_get(segment, "track"), 3, -(json_int_t)INT_MAX, INT_MAX)) {
        return refuse(error, number, "no path");
    }
    if (!is_list(json_object_get(segment, "words"), 2, 0, 1000)) {
        return refuse(error, number, "no places of words");
    }
    if (!is_picture(segment, video_id)) {
        return refuse(error, number, "no picture of this video");
    }
    return cv_are_entities(json_object_get(segment, "entities"))
               ? 0
               : refuse(error, number, "no list of entities");
}

static int check_result(const json_t *result, const char *video_id, struct cv_error *error)
{
    const json_t *segments = json_object_get(result, "segments");
    if (!json_is_array(segments) || json_array_size(segments) > CV_MERGE_MAX) {
        return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "the result has no list of segments");
    }
    for (size_t i = 0; i < json_array_size(segments); i++) {
        const json_t *segment = json_array_get(segments, i);
        CV_TRY(check_segment(segment, i, video_id, error));
        if (!is_in_paragraph(segment, json_array_size(segments))) {
            return refuse(error, i, "no place in a paragraph");
        }
    }
    return 0;
}

int index_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                 struct cv_error *error)
{
    const char *video_id = NULL;
    CV_TRY(cv_payload_uuid(job->payload, "video_id", &video_id, error));
    CV_TRY(check_result(result, video_id, error));
    cv_auto_free char *segments = json_dumps(json_object_get(result, "segments"), JSON_COMPACT);
    CV_TRY_MEMORY(segments, error, "the segments");
    CV_TRY(cv_db_run(db, NULL, error, "SELECT replace_video_text($1::uuid, $2::jsonb)", video_id,
                     segments));
    return cv_db_run(db, NULL, error, "DELETE FROM pending_readings WHERE video_id = $1::uuid",
                     video_id);
}
