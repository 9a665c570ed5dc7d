/* Which side of an edge each pixel of a frame is on: the first step of finding ink. */
#pragma once

#include "common/screen/frame.h"

enum { CV_EDGE_REACH = 2 /* pixels; a letter of 7 pixels has gaps of one */ };

enum cv_side { CV_SIDE_NONE, CV_SIDE_DARK, CV_SIDE_LIGHT };

/* The levels within CV_EDGE_REACH pixels of a pixel are split at their middle (J. Bernsen, "Dynamic thresholding of
 * grey-level images", 1986). So a letter keeps its size whatever the background is, two rows stay apart where one row of
 * background is between them, and what is on a button or a mark is found like what is on the page. Where nothing
 * differs there are no sides. */
struct cv_sides {
    int width, height;
    uint8_t *side;  /* enum cv_side, at [y * width + x]; 8 bytes longer than the pixels */
    uint8_t *range; /* levels between the extremes around each pixel */
};

void cv_sides_deinit(struct cv_sides *sides);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_sides, cv_sides_deinit)

/* The sides of all pixels of a frame. `ret_sides` is freed with cv_sides_deinit. */
CV_MUST_CHECK int cv_sides_find(const struct cv_frame *frame, struct cv_sides *ret_sides,
                                struct cv_error *error);

/* Finds the sides of the rows [from, to) again, whose pixels have changed. */
CV_MUST_CHECK int cv_sides_update(const struct cv_frame *frame, struct cv_sides *sides, int from,
                                  int to, struct cv_error *error);

/* Whether the pixels of a side in a wide box are the edge of something filled, and no stroke: above or below them is the
 * filling, whose colour they have, and no background. */
bool cv_is_filling(const struct cv_frame *frame, const struct cv_sides *sides,
                   const struct cv_box *box, uint8_t side);
