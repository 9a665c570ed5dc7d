/* Detects in which of a job's languages a line is. The model that read the line tells little,
 * because the English model reads German well, and the other way round. */
#pragma once

#include "common/base/base.h"

#include "workers/ocr/reading/language_detect.h"

enum {
    OCR_TONGUE_LETTERS_MIN = 3,   /* fewer are of no language: "PM", "OK" */
    OCR_TONGUE_LETTERS_SURE = 12, /* two words or three: so much of one language is no accident */
};

struct ocr_tongue {
    size_t model; /* whose language it most likely is; the number of models when nobody can say */
    int letters;  /* of the words that were looked at */
};

/* Counts the words of a text, and not at names, tags, addresses and numbers, which are of no
 * language. Nobody can say: no words, a language that is none of the models', or models of scripts. By
 * Compact Language Detector 2, which needs a few words to be sure and is right for most lines of two. */
struct ocr_tongue ocr_language_of(const char *text, const char *const *models, size_t count);

/* How many letters the words of a text have, if the language that it most likely is in is that of `model`; else 0. */
int ocr_language_letters(const char *text, const char *model);

/* Whether a model is known to be of a language of Latin letters. */
bool ocr_language_is_latin(const char *model);

/* Whether what the first of several models makes of a line is like enough to the line to tell its
 * language: all are known to be of Latin letters. */
bool ocr_language_first_tells(const char *const *models, size_t count);

/* Appends the words of a line that are of a language, each with a space behind it. */
void ocr_language_collect(const char *text, struct cv_buffer *words);

/* The models of the languages of Latin letters that the words of many lines are in; NULL where there are fewer. */
void ocr_languages_of(const struct cv_buffer *words, const char *ret_models[OCR_GUESSES]);
