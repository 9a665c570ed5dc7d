/* Marks that text models misread or drop, found by their pixels and put back into the text: the dot
 * at half the height of letters between a name and an age ("anna · 1h"), which is read as a hyphen or a
 * colon, and the underscore of a name in a wide face ("wolf_mm"), which is read as a blank. */
#pragma once

#include "workers/ocr/reader.h"

enum { OCR_MARKS_MAX = 16 }; /* of one line */

enum ocr_mark_kind { OCR_MARK_DOT, OCR_MARK_UNDERSCORE };

struct ocr_mark {
    enum ocr_mark_kind kind;
    int middle; /* pixels from the left */
};

/* Finds marks in a crop, at most OCR_MARKS_MAX; returns their number. A hyphen is wider than high, a
 * full stop stands on the baseline, and both stand close to a letter; under an underscore's columns
 * stands no letter, under those of an underline do. */
size_t ocr_marks_find(const struct ocr_crop *crop, struct ocr_mark marks[OCR_MARKS_MAX]);

/* Puts the marks of a crop `width` pixels wide into its text: a dot in place of the mark that was
 * read there, or between two words where none was; an underscore in place of a blank. What follows a
 * dot at the end of the line and is nothing but an age ("1h", "20m") is read as digits: "ih" is no
 * word there. Text of other scripts than the European ones is left as it is. Replaces *text. */
CV_MUST_CHECK int ocr_marks_restore(const struct ocr_mark *marks, size_t count, int width,
                                    char **text, struct cv_error *error);
