#include "common/text/text.h"

#include "workers/segment_index/index.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

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

/* Whether a value is a list of pairs of x and width in thousandths, or null. */
static bool are_words(const json_t *words)
{
    for (size_t i = 0; i < json_array_size(words); i++) {
        const json_t *place = json_array_get(words, i);
        if (!json_is_integer(place) || json_integer_value(place) < 0 ||
            json_integer_value(place) > 1000) {
            return false;
        }
    }
    return !words || (json_is_array(words) && json_array_size(words) % 2 == 0);
}

/* Whether a value is a list of triples of time, x and y, each relative to the one before; or null,
 * if the text did not move. */
static bool is_track(const json_t *track)
{
    for (size_t i = 0; i < json_array_size(track); i++) {
        const json_t *number = json_array_get(track, i);
        if (!json_is_integer(number) || llabs(json_integer_value(number)) > INT_MAX) {
            return false;
        }
    }
    return !track || (json_is_array(track) && json_array_size(track) % 3 == 0);
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

static bool are_entities(const json_t *entities)
{
    static const char *const types[] = {"mention", "hashtag", "url", "emoji", "number"};
    if (!json_is_array(entities)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(entities); i++) {
        const json_t *entity = json_array_get(entities, i);
        const char *type = json_string_value(json_object_get(entity, "type"));
        bool known = false;
        for (size_t j = 0; type && j < CV_COUNT(types); j++) {
            known = known || strcmp(type, types[j]) == 0;
        }
        if (!known || !is_text(entity, "value") || !is_text(entity, "normalized_value")) {
            return false;
        }
    }
    return true;
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
    if (!is_track(json_object_get(segment, "track"))) {
        return refuse(error, number, "no path");
    }
    if (!are_words(json_object_get(segment, "words"))) {
        return refuse(error, number, "no places of words");
    }
    if (!is_picture(segment, video_id)) {
        return refuse(error, number, "no picture of this video");
    }
    return are_entities(json_object_get(segment, "entities"))
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
        CV_TRY(check_segment(json_array_get(segments, i), i, video_id, error));
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
