/* Which parts of a line may be emoji. */
#pragma once

#include "common/screen/screen.h"

/* Where an emoji may be. */
struct ocr_emoji_candidate {
    struct cv_box box;
    int left, right; /* its neighbours' edges: it ends before them */
    bool picture;    /* surely no letter; else only its colours are unlike the others' */
};

/* Finds the colour emoji and coloured icons among the glyphs of a line, and glyphs that stand out by
 * their colours; at most `limit`, left to right; returns their number. None on a picture. */
size_t ocr_emoji_candidates(const struct cv_frame *frame, const struct cv_ink *ink,
                            const struct cv_text_line *line, const struct cv_box *glyphs,
                            struct ocr_emoji_candidate *spots, size_t limit);
