/* Compares a line seen before with the pixels of a frame. */
#pragma once

#include "workers/ocr/reading/reading.h"

enum {
    OCR_MATCH_REACH = 2, /* pixels by which the expected place may be wrong */
};

/* How far something moved, in pixels. */
struct ocr_jump {
    int dx, dy;
};

struct ocr_match {
    int dx, dy;          /* where it was found, against the expected place */
    int first, last;     /* rows of the crop that match, `last` exclusive */
    bool whole;          /* all rows do */
    const char *differs; /* why not all rows do, in words; static; NULL: they do */
    bool part; /* a piece that ends at the crop's top or bottom does: the line is cut there */
};

/* Searches `crop` in `frame` with its left top corner at `at` ± OCR_MATCH_REACH. */
CV_MUST_CHECK int ocr_match(const struct ocr_crop *crop, const struct cv_frame *frame,
                            struct cv_point at, struct ocr_match *ret_match,
                            struct cv_error *error);

/* Whether two crops show the same line: sizes equal within two pixels, same polarity, same pixels.
 */
bool ocr_match_crops(const struct ocr_crop *a, const struct ocr_crop *b);

/* What a frame shows at the place of a line. */
enum ocr_likeness {
    OCR_LIKENESS_NONE,    /* something else, in a part of it at least */
    OCR_LIKENESS_BLURRED, /* the same, less sharp: a codec refines new pictures by and by */
    OCR_LIKENESS_SAME,
    OCR_LIKENESS_SHARPER, /* the same, sharper: what was read of the line counts less */
};

/* Compares the line with what `frame` shows at `at` ± OCR_MATCH_REACH, between the pixels too, by correlation, part by
 * part: unlike ocr_match, deaf to blur and noise that are the same all over the line, and to a missing dot. */
CV_MUST_CHECK int ocr_match_likeness(const struct ocr_crop *crop, const struct cv_frame *frame,
                                     struct cv_point at, enum ocr_likeness *ret_likeness,
                                     struct cv_error *error);
