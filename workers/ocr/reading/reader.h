/* From a line's grey crop to its text: scale, margin, first reading, a second one with other
 * settings where the first is doubtful, and a third by another model where both are. */
#pragma once

#include "workers/ocr/pictures/pictures.h"
#include "workers/ocr/reading/engine.h"

/* Reads a crop, in sixteen levels; `*readings` grows by the number of calls of the engine. */
CV_MUST_CHECK int ocr_read(struct ocr_engine *engine, const struct ocr_crop *crop,
                           struct ocr_reading *ret_reading, int64_t *readings,
                           struct cv_error *error);

/* A grey picture of a crop in which capitals are `tall` pixels high (or fewer, where it would be too wide), without its
 * emoji, with a white margin; the caller frees `grey`. */
struct ocr_scaled_line {
    uint8_t *grey;
    int width, height;
};
CV_MUST_CHECK int ocr_scale_line(const struct ocr_crop *crop, int tall,
                                 struct ocr_scaled_line *ret_line, struct cv_error *error);

/* Reads the first character of a text that is not empty; U+FFFD and one byte where it is no UTF-8. Returns its
 * bytes. */
size_t ocr_next_point(const char *text, int32_t *ret_point);

/* Removes what no text has: lone marks that pictures beside the text were read as. A bar that is
 * an "I" becomes one. In place. */
void ocr_text_clean(char *text);

enum { OCR_COMPARED_MAX = 300 }; /* bytes of texts that are compared */

/* Edits that turn one text into the other, over bytes; both at most OCR_COMPARED_MAX long. */
size_t ocr_text_edits(const char *a, const char *b);

/* Whether a word of the text is what dictionaries get wrong: @name, #tag, address, number. */
bool ocr_text_has_entity(const char *text);
