/* Whether what was read is text. A picture's texture reads as a letter or two wherever it has
 * corners; a short reading therefore needs more to be believed than a sentence does. */
#pragma once

#include "workers/ocr/track.h"

/* An ideograph or a syllable counts twice: two of them are a word. */
enum ocr_weight ocr_text_weight(const char *text);

/* Marks the short lines among those present that stand beside a line of words of about their size
 * and of the same ink. Called once a frame. */
void ocr_note_company(struct ocr_tracks *tracks);

/* Whether a finished stretch of `lasted_ms` may be a line of text to models that know its language:
 * worth keeping, whatever was read there. */
bool ocr_may_be_text(const struct ocr_row *row, int64_t lasted_ms);

/* Whether a finished stretch of `lasted_ms` is a line of text. */
bool ocr_is_credible(const struct ocr_row *row, int64_t lasted_ms);
