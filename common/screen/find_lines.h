/* Finds lines of text in a frame: ink against its own background → connected components → lines. */
#pragma once

#include "common/screen/frame.h"

enum { CV_TEXT_LINES_MAX = 1500 /* per frame; more is texture, not text */ };

struct cv_text_line {
    struct cv_box box;  /* of the ink, without margin */
    int tall;           /* height of its tall letters: capitals, or those with ascenders */
    int glyphs;         /* components that it was made of */
    size_t first_glyph; /* its glyph boxes: cv_text_lines.glyphs[first_glyph …], left to right */
    size_t glyph_count;
    bool is_faint; /* below CV_EDGE_STRONG, on even background */
    bool is_light; /* lighter than its paper */
};

struct cv_text_lines {
    struct cv_text_line *items;
    size_t count;
    struct cv_box *glyphs;
    size_t glyph_count;
};

void cv_text_lines_deinit(struct cv_text_lines *lines);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_text_lines, cv_text_lines_deinit)

/* Finds components and groups them, for dark and light ink, and for faint ink once more. */
CV_MUST_CHECK int cv_text_lines_find(struct cv_frame *frame, struct cv_text_lines *ret_lines,
                                     struct cv_error *error);
