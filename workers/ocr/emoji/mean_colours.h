/* A small picture as cells of mean colours, and how far two such pictures are from each other. */
#pragma once

#include "common/screen/screen.h"

#include "workers/ocr/emoji/bank.h"

/* Three means a cell, and one number of no meaning: cells are loaded by fours. */
enum {
    OCR_COARSE_CELLS = OCR_EMOJI_COARSE * OCR_EMOJI_COARSE,
    OCR_COARSE_FLOATS = 3 * OCR_COARSE_CELLS + 1,
    OCR_FINE_CELLS = OCR_EMOJI_FINE * OCR_EMOJI_FINE,
    OCR_FINE_FLOATS = 3 * OCR_FINE_CELLS + 1,
};

/* Where a picture lies in a frame, in pixels; a cell's samples lie between pixels. */
struct ocr_placing {
    double x, y, width, height;
};

/* The picture as side × side cells of red, green and blue, row by row; `side` is OCR_EMOJI_COARSE or
 * OCR_EMOJI_FINE, the frame at least 2 × 2. What lies outside of the frame is its border. */
void ocr_mean_colours_measure(const struct cv_frame *frame, const struct ocr_placing *placing,
                              int side, float *ret_cells);

/* How much `count` cells differ from bare paper: the sum of squared differences. */
double ocr_mean_colours_energy(const float *cells, int count, const uint8_t paper[3]);

/* Sum of squared differences between side × side cells and an emoji on paper. The sum only grows: as
 * soon as it is above `enough`, some value above that is returned. */
double ocr_mean_colours_distance(const uint8_t *emoji, const float *cells, int side,
                                 const uint8_t paper[3], double enough);

/* The same sums as the bank has of its coarse pictures, of cells; nothing of them is bare. */
void ocr_mean_colours_quarters(const float *cells, struct ocr_emoji_quarters *ret_quarters);

/* A lower bound of ocr_mean_colours_distance over the coarse cells (Cauchy and Schwarz: a sum of n squares
 * is at least the square of the sum, by n), at a tenth of the cost. */
double ocr_mean_colours_distance_least(const struct ocr_emoji_quarters *emoji,
                                       const struct ocr_emoji_quarters *cells,
                                       const uint8_t paper[3]);
