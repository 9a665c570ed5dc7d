/* What the grouping of components to lines shares: lines.c grows them from left to right, misfits.c
 * finds what was drawn into one without being a letter. */
#pragma once

#include "common/screen/find_lines.h"

enum {
    OCR_BAND = 4, /* last letters whose height and place a line is continued at */
    OCR_NO_LINE = -1,
};

/* A line under construction. */
struct ocr_growing {
    struct ocr_box box;
    int tall; /* tallest letter */
    int band_top[OCR_BAND], band_bottom[OCR_BAND];
    int band_count;
    int glyphs;
    int merged_into; /* OCR_NO_LINE, or the line that took it */
};

struct ocr_grouping {
    const struct ocr_component *items;
    size_t count;
    int *line_of; /* component → line */
    struct ocr_growing *lines;
    int line_count;
    int *open;
    int open_count;
};

/* By top, then left. */
void ocr_lines_sort(struct ocr_lines *lines);

/* The line that took this one, or itself. */
static inline int ocr_grouping_root(const struct ocr_grouping *all, int line)
{
    while (all->lines[line].merged_into != OCR_NO_LINE) {
        line = all->lines[line].merged_into;
    }
    return line;
}

/* What a line consists of besides its tallest things. */
struct ocr_letters {
    int tall;  /* of the largest that are small beside the tallest */
    int width; /* of all those, in pixels */
    int count; /* of all those */
    int rest;  /* width of the others */
    int rest_count;
    int tallest;     /* height of the tallest */
    int first, last; /* the components at its ends; OCR_NO_LINE where there is none */
};

/* Marks the components of lines that are no letters. These are components more than twice as
 * tall as the letters that they were grouped with (an avatar, a picture or a button's frame, to
 * which letters were added as if they were its dots and commas), and components at an end of a
 * line that are as wide as high, larger than the letters and further from them than a blank,
 * with what lies in them. The pieces of an emoji behind a sentence are few beside its words and
 * mark none of them. Returns whether any was marked; `letters` is scratch space, one for each
 * line. */
bool ocr_misfits_find(const struct ocr_grouping *all, bool *left_out, struct ocr_letters *letters);
