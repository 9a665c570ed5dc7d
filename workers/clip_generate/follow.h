/* Finds a line in a picture by its look. Tracks are off by up to a row where rows jump: of the lines
 * of a chat, by 15 pixels at most (fixtures/chat.mp4, whose rows are 26 apart). */
#pragma once

#include "common/media/media.h"

enum { CLIP_PLACES_MAX = 16 };

/* The picture of a line, black on white, as ocr keeps it. */
struct clip_look {
    uint8_t *ink; /* width * height levels; NULL: none */
    int width, height;
};

void clip_look_deinit(struct clip_look *look);

/* Reads a PNG. A damaged one, or one that is too large, leaves *ret_look without ink. */
CV_MUST_CHECK int clip_look_read(const void *data, size_t size, struct clip_look *ret_look,
                                 struct cv_error *error);

/* The brightness of a picture, 8 bits. */
struct clip_luma {
    const uint8_t *data;
    ptrdiff_t line_size;
    int width, height;
};

struct clip_window {
    int left, top, right, bottom; /* of the places of the upper left corner, all included */
};

struct clip_place {
    int x, y; /* of the upper left corner */
};

/* Finds the places in the window at which the line is; returns how many, at most CLIP_PLACES_MAX. */
size_t clip_look_find(const struct clip_look *look, const struct clip_luma *luma,
                      const struct clip_window *window,
                      struct clip_place ret_places[CLIP_PLACES_MAX]);
