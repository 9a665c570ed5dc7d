/* The detector of languages, for C and C++ (language_detect.cc). */
#pragma once

#include <stddef.h>

enum { OCR_GUESSES = 3, OCR_GUESS_SIZE = 12 };

#ifdef __cplusplus
extern "C" {
#endif

/* Up to three ISO codes of a text in UTF-8, the likeliest first; "" where there are fewer. */
void ocr_language_guess(const char *text, size_t length, char guesses[][OCR_GUESS_SIZE]);

/* ISO codes of the languages that at least a fifth of a long text in UTF-8 is in, the largest part
 * first; "" where there are fewer, and everywhere for a text that is too short to tell. */
void ocr_language_parts(const char *text, size_t length, char parts[][OCR_GUESS_SIZE]);

#ifdef __cplusplus
}
#endif
