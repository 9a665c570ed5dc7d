/* Rows of one line, of which less or more was shown: by something that lay over it, by the picture's
 * side, or because the page grew. */
#pragma once

#include "workers/ocr/tracks/session_internal.h"

/* Whether two texts have different numbers. A letter in the place of a digit is misread. */
bool ocr_digits_differ(const char *a, const char *b);

enum { OCR_TEXT_MIN = 3 }; /* bytes of a text that tells a line from another */

/* Whether most of the shorter text stands in the other: what a pointer leaves of it, or a piece. With other
 * numbers it is another text. */
bool ocr_shares_text(const char *a, const char *b);

/* Why two tracks at one place are two lines, in words; NULL: they are two readings of one line, one of them unsure. */
const char *ocr_parts_lines(const struct ocr_track *known, const struct ocr_track *fresh);

/* Whether a line that was found stands where a known one should be by now, seen with more of it or
 * with less. */
bool ocr_shares_place(const struct cv_box *known, const struct cv_box *fresh);

/* Order of pointers to rows for qsort: by the first frame, then by the id of the track. */
int ocr_compare_starts(const void *left, const void *right);

/* Joins the rows of one line of which something that lies over the content hid a part for a
 * while. Called when the panes are settled. */
CV_MUST_CHECK int ocr_join_hidden_rows(struct ocr_session *session, struct cv_error *error);

/* Joins rows that end with a frame and rows that begin with the next one, where the shift
 * between these frames is not known: when the page grows or shrinks, a line that the picture's
 * side cuts is not a new line. */
void ocr_join_grown_rows(const struct ocr_session *session, struct ocr_row *const *before,
                         size_t before_count, struct ocr_row *const *after, size_t after_count);
