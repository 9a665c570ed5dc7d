/* Lines of a video that are not read letter by letter (subtitles, the contents of codes), from a stage's process to the
 * table segments. */
#pragma once

#include "common/db/db.h"
#include "common/media/media.h"
#include "common/text/text.h"

#include <jansson.h>

/* A line as a member of a stage's result: {"text", "t_start", "t_end", "entities"}. Without an
 * extractor it has no entities. `text` is valid UTF-8; times are ms. */
CV_MUST_CHECK int cv_said_line(struct cv_entity_extractor *extractor, const char *text,
                               int64_t start_ms, int64_t end_ms, json_t **ret_line,
                               struct cv_error *error);

/* Subtitles as a member of a stage's result: [{"text", "language", "t_start", "t_end", "entities"}]. */
CV_MUST_CHECK int cv_said_describe(const struct cv_subtitle_list *list, json_t **ret_lines,
                                   struct cv_error *error);

/* Stores lines of a stage's result, in the supervisor's transaction; "bounding_box" and "end_box" as they are. `source` and `read_from` are
 * segments.source and segments.detected_by; `replaces`: other lines of both are removed.
 * CV_ERROR_STAGE_PROTOCOL if a line is not as cv_said_describe() makes it. */
CV_MUST_CHECK int cv_said_store(struct cv_db *db, const char *video_id, const char *source,
                                const char *read_from, const json_t *lines, bool replaces,
                                struct cv_error *error);
