/* Frames in, rows out: follows the lines of one video from kept frame to kept frame and reads each
 * once. Deterministic: the rows depend on the frames and their times alone. */
#pragma once

#include "workers/ocr/tracks/track.h"

#include <jansson.h>

struct ocr_session;

/* Borrows `engine` and `timings` (one for each frame to come). */
CV_MUST_CHECK int ocr_session_new(struct ocr_engine *engine, const struct ocr_timing *timings,
                                  size_t count, struct ocr_session **ret_session,
                                  struct cv_error *error);
void ocr_session_free(struct ocr_session *session);
CV_DEFINE_CLEANUP(struct ocr_session *, ocr_session_free)

/* Keeps the pictures of lines in `pack`, which the session borrows; before the first frame. */
struct ocr_pack;
void ocr_session_keep(struct ocr_session *session, struct ocr_pack *pack);

/* Notes in `reasons`, which the session borrows, what it does with each line, and why; before the first frame. The
 * lines are named by the ids of their tracks. */
void ocr_session_explain(struct ocr_session *session, struct cv_reasons *reasons);

/* The next frame, in order of time. Takes it over. */
CV_MUST_CHECK int ocr_session_frame(struct ocr_session *session, struct cv_frame *frame,
                                    struct cv_error *error);

/* Ends all lines, and gives the pack its rows; *ret_result is {"detections": [row…], "frames", "lines_seen", "lines_read",
 * "readings", "truncated"}: the last counts lines that were gone before the budget (budget.h) had room to read them. A row: {"text","confidence","language","bounding_box","t_start","t_end","line"}
 * and, when the line moved, "end_box", where it was last seen whole; ordered by t_start, then place.
 * Those that are less likely text than `min_confidence` (accept.h) are left out. Of a session that explains there is
 * "evidence", too: every reading, also what was refused, with what the model saw of it; and "reasons" (struct
 * cv_reasons). */
CV_MUST_CHECK int ocr_session_finish(struct ocr_session *session, double min_confidence,
                                     json_t **ret_result, struct cv_error *error);
