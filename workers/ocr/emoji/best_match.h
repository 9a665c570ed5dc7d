/* Which emoji a small coloured picture is. */
#pragma once

#include "common/screen/screen.h"

#include "workers/ocr/emoji/bank.h"

struct ocr_emoji_match {
    const char *text; /* borrowed from the bank; NULL when nothing is like it */
    double score; /* 0…1: share of the picture's difference from its paper that is explained */
    double rival; /* 0…1: the same of the best other emoji; another skin tone or sex is no other */
    double plain; /* 0…1: share that a square or a disc of one colour explains: avatars, buttons */
};

/* Compares the pixels of `box` with all emoji laid on `paper` (red, green, blue). First all of the
 * banks at 8 × 8 cells, then the best of those at 20 × 20, shifted and stretched by a pixel, because
 * an edge that fades into the paper puts the box off. `box` is the tight box of what differs from the
 * paper, at least 8 pixels a side. */
struct ocr_emoji_match ocr_emoji_match(const struct ocr_emoji_banks *banks,
                                       const struct cv_frame *frame, const uint8_t paper[3],
                                       const struct cv_box *box);

/* Whether a picture is the emoji that it matches: it is like that one, much less like every other one, and
 * much less like a disc or a square of one colour. Discs and squares themselves are never emoji for sure. */
bool ocr_emoji_is_sure(const struct ocr_emoji_match *match);
