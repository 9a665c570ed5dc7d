/* Finds lines of text in a frame: ink against its own ground → connected components → lines. */
#pragma once

#include "common/screen/frame.h"

enum {
    OCR_EDGE_FAINT =
        22, /* levels between ink and paper: ghosts that a codec leaves of what was there
                             before stay below */
    OCR_EDGE_STRONG = 52, /* codec noise stays below; fainter lines have to prove more */
    OCR_GLYPH_HEIGHT_MIN = 4,
    OCR_FRAME_MIN = 24,         /* pixels of height: of a field or a cell around one letter */
    OCR_GLYPH_HEIGHT_MAX = 160, /* of letters; larger things are pictures, cards, borders */
    OCR_LINES_MAX = 1500,       /* per frame; more is texture, not text */
};

/* A connected area of ink: a glyph, a part of one, or several that touch. */
struct ocr_component {
    struct ocr_box box;
    int pixels;
    int peak;        /* levels between it and what is around it, where that is most */
    bool is_light;   /* lighter than what is around it */
    int cluster;     /* the same for all that touch, of either side: a word, an emoji in pieces */
    bool is_edge;    /* of a mark behind letters: of what is filled, and no stroke */
    bool is_inner;   /* lies in another one: the hole of an o, or a letter on a button */
    bool has_parts;  /* there are edges within it, too: no disc of one colour */
    bool is_picture; /* a cluster that is no letters: of both sides */
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
    bool is_light; /* lighter than its paper */
};

struct ocr_lines {
    struct ocr_line *items;
    size_t count;
    struct ocr_box *glyphs;
    size_t glyph_count;
};

void ocr_lines_deinit(struct ocr_lines *lines);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_lines, ocr_lines_deinit)

/* Ink of a frame, dark and light, of a possible size only, ordered by left edge, then top. */
CV_MUST_CHECK int ocr_components_find(struct ocr_frame *frame,
                                      struct ocr_components *ret_components,
                                      struct cv_error *error);

/* Drops what letters stand on, from the innermost on: a card is known by the letters on it when the button between them
 * is gone (grounds.c). */
void ocr_grounds_remove(struct ocr_components *components);

/* Whether two components share columns, and neither lies in the other: letters stand side by side. */
bool ocr_is_stacked(const struct ocr_box *a, const struct ocr_box *b);

/* Whether so many pixels are nothing but a thin rectangle of that size: those near to an edge on each of its four sides. */
bool ocr_is_rim(int width, int height, int pixels);

/* Cuts components apart that are letters of two rows (split.c). */
CV_MUST_CHECK int ocr_components_split(struct ocr_components *components, struct cv_error *error);

/* By left edge, then top. */
void ocr_components_sort(struct ocr_components *components);

/* Groups components to lines, split at gaps as wide as columns have; ordered by top, then left. */
CV_MUST_CHECK int ocr_lines_group(const struct ocr_components *components,
                                  struct ocr_lines *ret_lines, struct cv_error *error);

/* Both steps, for dark and light ink, and for faint ink once more. */
CV_MUST_CHECK int ocr_lines_find(struct ocr_frame *frame, struct ocr_lines *ret_lines,
                                 struct cv_error *error);
