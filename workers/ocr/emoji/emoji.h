/* Emoji of a line: found as pictures among its letters or beside them, told apart from letters, icons
 * and avatars, and read by comparison with the bank. */
#pragma once

#include "common/screen/screen.h"

#include "workers/ocr/emoji/best_match.h"

enum { OCR_EMOJI_LINE_MAX = 32 /* of one line; a wall of emoji ends there */ };

/* Where an emoji may be. */
struct ocr_emoji_spot {
    struct ocr_box box;
    int left, right; /* its neighbours' edges: it ends before them */
    bool picture;    /* surely no letter; else only its colours are unlike the others' */
};

/* Finds the colour emoji and coloured icons among the glyphs of a line, and glyphs that stand out by
 * their colours; at most `limit`, left to right; returns their number. None on a picture. */
size_t ocr_emoji_spots(const struct ocr_frame *frame, const struct ocr_ink *ink,
                       const struct ocr_line *line, const struct ocr_box *glyphs,
                       struct ocr_emoji_spot *spots, size_t limit);

struct ocr_emoji {
    struct ocr_box box;
    const char *text; /* of the bank; NULL: a picture that is no emoji, cut out all the same */
    double score;     /* 0…1 */
};

/* Reads the emoji of a line, those beside its ends included, which edges alone left out: faint ones
 * and large ones. Left to right, at most OCR_EMOJI_LINE_MAX; returns their number. */
size_t ocr_emoji_read(const struct ocr_emoji_banks *banks, const struct ocr_frame *frame,
                      const struct ocr_ink *ink, const struct ocr_line *line,
                      const struct ocr_box *glyphs, struct ocr_emoji emoji[OCR_EMOJI_LINE_MAX]);
