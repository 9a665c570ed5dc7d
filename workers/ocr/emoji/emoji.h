/* Emoji of a line: found as pictures among its letters or beside them, told apart from letters, icons
 * and avatars, and read by a network that knows their shapes. */
#pragma once

#include "common/screen/screen.h"

#include "workers/ocr/emoji/network.h"

enum {
    OCR_EMOJI_LINE_MAX = 32, /* of one line; a wall of emoji ends there */
    OCR_EMOJI_TEXT = 48,     /* bytes of one, with its end */
};

struct ocr_emoji {
    struct cv_box box;
    const char *text; /* of the program; NULL: a picture that is no emoji, cut out all the same */
    double score;     /* 0…1 */
};

/* Reads the emoji of a line, those beside its ends included, which edges alone left out: faint ones
 * and large ones. Left to right, at most OCR_EMOJI_LINE_MAX; returns their number. */
size_t ocr_emoji_read(const struct cv_frame *frame, const struct cv_ink *ink,
                      const struct cv_text_line *line, const struct cv_box *glyphs,
                      struct ocr_emoji emoji[OCR_EMOJI_LINE_MAX]);
