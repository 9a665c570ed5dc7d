/* The dot between two words at half the height of letters ("anna · 1h"), which interfaces put
 * between a name and an age, and which text models read as a hyphen or a colon, or drop. */
#pragma once

#include "workers/ocr/reader.h"

enum { OCR_DOTS_MAX = 8 }; /* of one line */

/* Finds lone dots at half height in a crop; writes their middles, in pixels from the left, in order,
 * at most OCR_DOTS_MAX; returns their number. A hyphen is wider than high, a full stop stands on the
 * baseline, and both stand close to a letter. */
size_t ocr_dots_find(const struct ocr_crop *crop, int middles[OCR_DOTS_MAX]);

/* Puts "·" into the text of a crop `width` pixels wide where its dots are, in place of the mark that
 * was read there, or between two words where none was. What follows the last one and is nothing but
 * an age ("1h", "20m") is read as digits: "ih" is no word there. Replaces *text. */
CV_MUST_CHECK int ocr_dots_restore(const int *middles, size_t count, int width, char **text,
                                   struct cv_error *error);
