/* Which side of an edge each pixel of a frame is on: the first step of finding ink. */
#pragma once

#include "common/screen/frame.h"

enum { OCR_REACH = 2 /* pixels; a letter of 7 pixels has gaps of one */ };

enum ocr_side { OCR_SIDE_NONE, OCR_SIDE_DARK, OCR_SIDE_LIGHT };

/* The levels within OCR_REACH pixels of a pixel are split at their middle (J. Bernsen, "Dynamic thresholding of
 * grey-level images", 1986). So a letter keeps its size whatever the background is, two rows stay apart where one row of
 * background is between them, and what is on a button or a mark is found like what is on the page. Where nothing
 * differs there are no sides. */
struct ocr_sides {
    int width, height;
    uint8_t *side;  /* enum ocr_side, at [y * width + x]; 8 bytes longer than the pixels */
    uint8_t *range; /* levels between the extremes around each pixel */
};

void ocr_sides_deinit(struct ocr_sides *sides);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_sides, ocr_sides_deinit)

/* The sides of all pixels of a frame. `ret_sides` is freed with ocr_sides_deinit. */
CV_MUST_CHECK int ocr_sides_find(const struct ocr_frame *frame, struct ocr_sides *ret_sides,
                                 struct cv_error *error);

/* Finds the sides of the rows [from, to) again, whose pixels have changed. */
CV_MUST_CHECK int ocr_sides_update(const struct ocr_frame *frame, struct ocr_sides *sides, int from,
                                   int to, struct cv_error *error);

/* Whether the pixels of a side in a wide box are the edge of something filled, and no stroke: above or below them is the
 * filling, whose colour they have, and no background. */
bool ocr_is_filling(const struct ocr_frame *frame, const struct ocr_sides *sides,
                    const struct cv_box *box, uint8_t side);
