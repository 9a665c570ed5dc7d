#include "common/said/said.h"

#include "common/text/text.h"

#include <string.h>

int cv_said_line(struct cv_entity_extractor *extractor, const char *text, int64_t start_ms,
                 int64_t end_ms, json_t **ret_line, struct cv_error *error)
{
    cv_auto(cv_entity_list_deinit) struct cv_entity_list found = {0};
    if (extractor) {
        CV_TRY(cv_entity_extract(extractor, text, &found, error));
    }
    cv_auto(json_decref) json_t *line =
        json_pack("{s:s, s:I, s:I}", "text", text, "t_start", (json_int_t)start_ms, "t_end",
                  (json_int_t)end_ms);
    CV_TRY_MEMORY(line, error, "lines");
    CV_TRY_MEMORY(json_object_set_new(line, "entities", cv_entities_json(&found)) == 0, error,
                  "entities");
    *ret_line = cv_take(line);
    return 0;
}

int cv_said_describe(const struct cv_subtitle_list *list, json_t **ret_lines,
                     struct cv_error *error)
{
    cv_auto(json_decref) json_t *lines = json_array();
    cv_auto(cv_entity_extractor_free) struct cv_entity_extractor *extractor = NULL;
    CV_TRY_MEMORY(lines, error, "lines");
    if (list->count > 0) {
        CV_TRY(cv_entity_extractor_new(&extractor, error));
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct cv_subtitle *said = &list->items[i];
        json_t *line = NULL;
        CV_TRY(cv_said_line(extractor, said->text, said->start_ms, said->end_ms, &line, error));
        CV_TRY_MEMORY(json_array_append_new(lines, line) == 0, error, "lines");
        CV_TRY_MEMORY(!said->language[0] ||
                          json_object_set_new(line, "language", json_string(said->language)) == 0,
                      error, "lines");
    }
    *ret_lines = cv_take(lines);
    return 0;
}

static bool is_time(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) <= INT32_MAX;
}

/* Only codes have places. */
static bool is_line(const json_t *line, bool is_code)
{
    const json_t *text = json_object_get(line, "text");
    const json_t *language = json_object_get(line, "language");
    const json_t *start = json_object_get(line, "t_start"), *end = json_object_get(line, "t_end");
    return json_is_string(text) && json_string_length(text) <= CV_SUBTITLE_BYTES_MAX &&
           (!language || (json_is_string(language) &&
                          strlen(json_string_value(language)) < CV_SUBTITLE_LANGUAGE_SIZE)) &&
           is_time(start) && is_time(end) && json_integer_value(end) >= json_integer_value(start) &&
           cv_are_entities(json_object_get(line, "entities")) &&
           (is_code ||
            !(json_object_get(line, "bounding_box") || json_object_get(line, "end_box")));
}

int cv_said_store(struct cv_db *db, const char *video_id, const char *source, const char *read_from,
                  const json_t *lines, bool replaces, struct cv_error *error)
{
    size_t index;
    json_t *line;
    if (!json_is_array(lines) || json_array_size(lines) > CV_SUBTITLE_LINES_MAX) {
        return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "the result has no list of lines");
    }
    json_array_foreach(lines, index, line)
    {
        if (!is_line(line, strcmp(source, "code") == 0)) {
            return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "line %zu of the result is no line",
                           index);
        }
    }
    if (json_array_size(lines) == 0 && !replaces) {
        return 0;
    }
    cv_auto_free char *text = json_dumps(lines, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "lines");
    return cv_db_run(db, NULL, error,
                     "SELECT add_said_lines($1::uuid, $2, $3, $4::jsonb, $5::boolean)", video_id,
                     source, read_from, text, replaces ? "true" : "false");
}
