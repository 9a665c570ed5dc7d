/* Lines that were said in a video, from a stage's process to the table segments. */
#pragma once

#include "common/db/db.h"
#include "common/media/media.h"

#include <jansson.h>

/* Subtitles as a member of a stage's result: [{"text", "language", "t_start", "t_end", "entities"}]. */
CV_MUST_CHECK int cv_said_describe(const struct cv_subtitle_list *list, json_t **ret_lines,
                                   struct cv_error *error);

/* Stores lines of a stage's result, in the supervisor's transaction. `source` and `read_from` are
 * segments.source and segments.detected_by; `replaces`: other lines of both are removed.
 * CV_ERROR_STAGE_PROTOCOL if a line is not as cv_said_describe() makes it. */
CV_MUST_CHECK int cv_said_store(struct cv_db *db, const char *video_id, const char *source,
                                const char *read_from, const json_t *lines, bool replaces,
                                struct cv_error *error);
