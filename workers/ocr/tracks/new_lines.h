/* Adds the lines of a frame that are not known yet. */
#pragma once

#include "workers/ocr/tracks/session_internal.h"

/* Adds the lines of the frame that ocr_follow did not explain. */
CV_MUST_CHECK int ocr_add_new_lines(struct ocr_session *session, struct cv_error *error);

/* Reads a line that was not read yet. */
CV_MUST_CHECK int ocr_read_track(struct ocr_session *session, struct ocr_track *track,
                                 struct cv_error *error);

/* Ends all lines that the one at `track` turns out to contain. */
CV_MUST_CHECK int ocr_end_pieces(struct ocr_session *session, const struct ocr_track *track,
                                 struct cv_error *error);
