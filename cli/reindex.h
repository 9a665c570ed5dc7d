/* Videos that are read again from what is kept of them. */
#pragma once

#include "cli/ingest.h"

/* Whether a video was last read with other models than those of the list. */
CV_MUST_CHECK int cli_reindex_is_other(struct cv_db *db, const char *video_id,
                                       const json_t *languages, bool *ret_is_other,
                                       struct cv_error *error);

/* Starts a run that reads `video` again, with `languages` or, when that is NULL, those of the last
 * time, and notes it in `video` (CLI_VIDEO_AGAIN). CV_ERROR_CONFLICT when it is being worked on;
 * CV_ERROR_OBJECT_NOT_FOUND when nothing is kept that could be read. */
CV_MUST_CHECK int cli_reindex_start(struct cli_session *session, const json_t *languages,
                                    struct cli_video *video, struct cv_error *error);
