/* Rows of one line, of which less or more was shown: by something that lay over it, by the picture's
 * side, or because the page grew. */
#pragma once

#include "workers/ocr/tracks/session_internal.h"

/* Pixels between the picture's side and the ink that it cuts: edges are looked for inside of it. */
enum { OCR_SIDE_EDGE = 2 };

/* How much of a line the second row shows, against the first; by their texts. */
enum ocr_share { OCR_SHARE_NONE, OCR_SHARE_SAME, OCR_SHARE_MORE, OCR_SHARE_LESS };

enum ocr_share ocr_share_of(const struct ocr_row *known, const struct ocr_row *fresh);

/* Whether the digits of two texts differ, one by one. */
bool ocr_digits_differ(const char *a, const char *b);

enum { OCR_TEXT_MIN = 3 }; /* bytes of a text that tells a line from another */

/* Whether most of the shorter text stands in the other: what a pointer leaves of it, or a piece. With other
 * numbers it is another text. */
bool ocr_shares_text(const char *a, const char *b);

/* Joins rows that end with a frame and rows that begin with the next one, where the shift
 * between these frames is not known: when the page grows or shrinks, a line that the picture's
 * side cuts is not a new line. */
void ocr_zoom_unite(const struct ocr_session *session, struct ocr_row *const *before,
                    size_t before_count, struct ocr_row *const *after, size_t after_count);
