/* What lies around the letters: how even a frame is, block by block, and so how faint an edge may be
 * there and still be one of a letter. */
#pragma once

#include "workers/ocr/lines.h"

enum { OCR_GROUND_BLOCK = 16 }; /* pixels a side: codecs ring no further around an edge */

/* One of a frame; the blocks of a row lie together. */
struct ocr_ground {
    int columns, rows;
    uint8_t *peaks;  /* largest gradient of each block; one allocation with `strong` */
    uint8_t *strong; /* the gradient that a letter has at least; 0: as elsewhere, OCR_EDGE_STRONG */
};

CV_MUST_CHECK int ocr_ground_init(struct ocr_ground *ground, const struct ocr_frame *frame,
                                  struct cv_error *error);
void ocr_ground_deinit(struct ocr_ground *ground);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_ground, ocr_ground_deinit)

/* Takes the gradients of row y in. */
void ocr_ground_note(struct ocr_ground *ground, const uint8_t *edges, int width, int y);

/* After all rows: finds where faint letters may be, in blocks without strong edges in or beside
 * them, and what noise there is. *ret_any: there are such blocks. */
CV_MUST_CHECK int ocr_ground_learn(struct ocr_ground *ground, const struct ocr_frame *frame,
                                   bool *ret_any, struct cv_error *error);

/* Whether row y crosses such blocks. */
bool ocr_ground_any(const struct ocr_ground *ground, int y);

/* Raises the gradients of row y so that OCR_EDGE_STRONG is what a letter has at least there, and takes
 * away those of other places. */
void ocr_ground_lift(const struct ocr_ground *ground, uint8_t *edges, int width, int y);

/* Whether a line lies wholly in such blocks, with a blank's width around it. */
bool ocr_ground_holds(const struct ocr_ground *ground, const struct ocr_line *line);

/* The largest central difference of the three colours at every pixel of row y; none at the rim. `edges`
 * has the frame's width. */
void ocr_gradient_row(const struct ocr_frame *frame, int y, uint8_t *edges);

/* Edge components of `frame`, those with a strong edge and of a possible size only, ordered by left
 * edge, then top. `ground` takes note of their gradients. */
CV_MUST_CHECK int ocr_components_find(const struct ocr_frame *frame, struct ocr_ground *ground,
                                      struct ocr_components *ret_components,
                                      struct cv_error *error);

/* Edge components like those of ocr_components_find, of the places that `ground` has learned. */
CV_MUST_CHECK int ocr_components_faint(const struct ocr_frame *frame,
                                       const struct ocr_ground *ground,
                                       struct ocr_components *ret_components,
                                       struct cv_error *error);
