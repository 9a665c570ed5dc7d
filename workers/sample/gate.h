/* Is there anything new to read? Compares a picture with the last kept one in blocks of 8×8 pixels
 * (smaller than a letter), so that one changed digit counts and the codec's noise does not.
 *
 * A block has changed when its sum of absolute luma differences (SAD) is above a threshold that
 * follows the noise of this very pair of pictures: refreshed by a key frame, ALL textured blocks
 * differ a little, while new text makes FEW blocks differ a lot. Brightness that shifts
 * and surfaces that move (a picture behind subtitles) are no text: in a changed block, strokes have
 * come, gone or moved too.
 */
#pragma once

#include "common/base/base.h"

#include "workers/sample/plane.h"

enum { GATE_BLOCK = 8 };

struct gate {
    int columns, rows; /* blocks; those at the right and lower edge may be cut */
    uint16_t *sad;     /* of the last comparison, one a block */
    uint8_t *changed;  /* 1 where strokes have changed, 2 where something else has */
    double scale;      /* of the thresholds; 1 at a dedupe threshold of 0.95 */
    int quiet;         /* SAD of half a block that needs no second look */
    unsigned phase;    /* which rows are looked at first: the caller counts it up from one picture
                          to the next */
};

struct gate_result {
    int changed;                  /* blocks whose strokes differ: text may have changed */
    int shifted;                  /* blocks that differ otherwise */
    int threshold;                /* SAD from which a block counts, as learned from this pair */
    int left, top, right, bottom; /* changed blocks lie in [left, right) × [top, bottom) */
};

/* `dedupe_threshold` 0…1 is the similarity of a block above which it shows nothing new, relative to
 * the codec's noise: at 0.95 a block may differ by up to 1,300 (a mean of 20 levels a pixel) in a
 * noisy file and 520 in a clean one; the bounds grow and shrink with (1 − threshold) / 0.05. */
CV_MUST_CHECK int gate_init(struct gate *gate, int width, int height, double dedupe_threshold,
                            struct cv_error *error);
void gate_deinit(struct gate *gate);
CV_DEFINE_CLEANUP_ADDRESS(struct gate, gate_deinit)

enum gate_view {
    GATE_FINE,   /* as little as possible is missed */
    GATE_COARSE, /* at the upper bound: deaf to an encoder that refines a new picture */
};

/* Compares two planes of the size given to gate_init. */
void gate_compare(struct gate *gate, const struct plane *reference, const struct plane *current,
                  enum gate_view view, struct gate_result *ret_result);

/* The same for a plane of another size (chroma), comparing at most every other row. The block maps
 * do not change. The plane may not be larger than that of gate_init. */
bool gate_chroma_changed(const struct gate *gate, const struct plane *reference,
                         const struct plane *current, enum gate_view view);
