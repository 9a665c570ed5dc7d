/* Joins the rows of lines that something interrupted for a moment. */
#pragma once

#include "workers/ocr/tracks/session_internal.h"

/* Joins the rows of one line that was interrupted, or could not be read, for a moment. Called
 * after ocr_join_hidden_rows. `least` is the likelihood from which a row is a line of text (accept.h). */
CV_MUST_CHECK int ocr_join_interrupted_rows(struct ocr_session *session, double least,
                                            struct cv_error *error);
