/* Makes rows of the times in which a line was seen whole. */
#pragma once

#include "workers/ocr/tracks/session_internal.h"

/* Ends the open stretch of a line, if any, and makes a row of it when it has text. */
CV_MUST_CHECK int ocr_end_stretch(struct ocr_session *session, struct ocr_track *track,
                                  struct cv_error *error);
