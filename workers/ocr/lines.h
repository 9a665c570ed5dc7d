/* Finds lines of text in a frame: sharp edges → connected components → lines.
 *
 * Works on edges in any colour channel, so that dark, light and coloured text on any background is
 * found in one pass, whatever its polarity. */
#pragma once

#include "workers/ocr/frame.h"

enum {
    OCR_EDGE_WEAK = 26,   /* gradient (levels over two pixels) that belongs to a component */
    OCR_EDGE_STRONG = 52, /* a component needs one such pixel: codec noise stays below it */
    OCR_GLYPH_HEIGHT_MIN = 4,
    OCR_GLYPH_HEIGHT_MAX = 160, /* of letters; larger things are pictures, cards, borders */
    OCR_LINES_MAX = 1500,       /* per frame; more is texture, not text */
    OCR_COMPONENTS_MAX = 300000,
};

/* A connected area of edge pixels: a glyph, a part of one, or several that touch. */
struct ocr_component {
    struct ocr_box box;
    int pixels; /* edge pixels */
    int peak;   /* largest gradient */
};

struct ocr_components {
    struct ocr_component *items;
    size_t count;
};

void ocr_components_deinit(struct ocr_components *components);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_components, ocr_components_deinit)

struct ocr_line {
    struct ocr_box box; /* of the ink, without margin */
    int tall;           /* height of its tall letters: capitals, or those with ascenders */
    int glyphs;         /* components that it was made of */
    size_t first_glyph; /* its glyph boxes: ocr_lines.glyphs[first_glyph …], left to right */
    size_t glyph_count;
    bool is_faint; /* below OCR_EDGE_STRONG, on even ground */
};

struct ocr_lines {
    struct ocr_line *items;
    size_t count;
    struct ocr_box *glyphs;
    size_t glyph_count;
};

void ocr_lines_deinit(struct ocr_lines *lines);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_lines, ocr_lines_deinit)

/* Groups components to lines, split at gaps as wide as columns have; ordered by top, then left. */
CV_MUST_CHECK int ocr_lines_group(const struct ocr_components *components,
                                  struct ocr_lines *ret_lines, struct cv_error *error);

/* Both steps, and once more for faint lines: where the ground is even and no strong edge is near, less
 * than OCR_EDGE_STRONG makes a letter. */
CV_MUST_CHECK int ocr_lines_find(const struct ocr_frame *frame, struct ocr_lines *ret_lines,
                                 struct cv_error *error);
