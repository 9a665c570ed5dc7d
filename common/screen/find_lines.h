/* Finds lines of text in a frame: ink against its own background → connected components → lines. */
#pragma once

#include "common/screen/frame.h"

enum { OCR_LINES_MAX = 1500 /* per frame; more is texture, not text */ };

struct ocr_line {
    struct cv_box box;  /* of the ink, without margin */
    int tall;           /* height of its tall letters: capitals, or those with ascenders */
    int glyphs;         /* components that it was made of */
    size_t first_glyph; /* its glyph boxes: ocr_lines.glyphs[first_glyph …], left to right */
    size_t glyph_count;
    bool is_faint; /* below OCR_EDGE_STRONG, on even background */
    bool is_light; /* lighter than its paper */
};

struct ocr_lines {
    struct ocr_line *items;
    size_t count;
    struct cv_box *glyphs;
    size_t glyph_count;
};

void ocr_lines_deinit(struct ocr_lines *lines);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_lines, ocr_lines_deinit)

/* Finds components and groups them, for dark and light ink, and for faint ink once more. */
CV_MUST_CHECK int ocr_lines_find(struct ocr_frame *frame, struct ocr_lines *ret_lines,
                                 struct cv_error *error);
