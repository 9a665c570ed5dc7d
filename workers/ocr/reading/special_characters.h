/* Marks that text models misread or drop, known by their pixels: the dot at half the height of letters between a name
 * and an age ("anna · 1h"), which is read as a hyphen or a colon, arrows, which are read as T, L and t, and the
 * underscore of a name in a wide face ("wolf_mm"), which is read as a blank. */
#pragma once

#include "workers/ocr/reading/reader.h"

enum { OCR_SPECIAL_CHARACTERS_MAX = 16 }; /* of one line */

struct ocr_special_character {
    struct cv_box box; /* crop pixels */
    const char *text;  /* static */
};

struct ocr_special_characters {
    struct ocr_special_character items[OCR_SPECIAL_CHARACTERS_MAX]; /* from left to right */
    size_t count;
};

/* Finds the marks of a crop. A hyphen is wider than a dot, a full stop stands on the baseline, and both stand close to a
 * letter; an arrow is a stem with a head that widens from its point on; over an underscore's columns stands no letter,
 * over those of an underline do. */
void ocr_special_characters_find(const struct ocr_crop *crop,
                                 struct ocr_special_characters *ret_marks);

/* An underscore is put in where a blank was read for it. */
bool ocr_is_underscore(const char *text);

/* A dot takes the place of what was read for it; other marks are painted over before reading. */
bool ocr_is_middle_dot(const char *text);
