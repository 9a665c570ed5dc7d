/* Follows the known lines from one kept frame to the next. */
#pragma once

#include "workers/ocr/tracks/session_internal.h"

/* Finds shifts that the payload does not name, by which several lines, or a long one, went to
 * other places. The lines of a chat jump when one is added; those of a list jump by two shifts
 * at once when a row between them goes. */
CV_MUST_CHECK int ocr_find_jumps(struct ocr_session *session, struct cv_error *error);

/* Finds every present line in the frame; those found are `matched`. */
CV_MUST_CHECK int ocr_follow(struct ocr_session *session, struct cv_error *error);

/* Opens a stretch at the line's box in the current frame, or extends the one that is open. */
void ocr_record_sighting(struct ocr_session *session, struct ocr_track *track);

/* Whether a box ends where the pane that it lies in (or the frame) ends, so that the line may go on
 * behind. */
bool ocr_touches_edge(const struct cv_pane *pane, const struct cv_box *box, int width, int height);
