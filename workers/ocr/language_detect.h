/* The detector of languages, for C and C++ (language_detect.cc). */
#pragma once

#include <stddef.h>

enum { OCR_GUESSES = 3, OCR_GUESS_SIZE = 12 };

#ifdef __cplusplus
extern "C" {
#endif

/* Up to three ISO codes of a text in UTF-8, the likeliest first; "" where there are fewer. */
void ocr_language_guess(const char *text, size_t length, char guesses[][OCR_GUESS_SIZE]);

#ifdef __cplusplus
}
#endif
