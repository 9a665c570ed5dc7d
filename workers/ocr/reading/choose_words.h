/* Chooses, word by word, what models of different scripts read in one line. Each model is as
 * sure of letters that it does not know as of its own: "Мат" for Main, "Мопе" for None, 0855 for
 * pass. */
#pragma once

#include "workers/ocr/reading/line_text.h"

/* What the choice looks at, in the order of its weights (word_weights.h). A word is native where
 * the model that read it is of another script than Latin. */
#define OCR_WORD_FEATURES(X)                                                           \
    X(BIAS)          /* 1 */                                                           \
    X(NATIVE)        /* is it native */                                                \
    X(SURE)          /* how sure its model is of it */                                 \
    X(DOUBT)         /* by how much it is less sure than a guess */                    \
    X(WORST)         /* how sure its model is of its least sure letter or digit … */ \
    X(MEAN)          /* … and in the mean */                                         \
    X(NATIVE_SURE)   /* SURE, of a native one */                                       \
    X(NATIVE_LATIN)  /* native, all letters are Latin */                               \
    X(NATIVE_MIXED)  /* native, with Latin letters among its own */                    \
    X(NATIVE_BARE)   /* native, without letters */                                     \
    X(LATIN_BARE)    /* not native, without letters */                                 \
    X(LENGTH)        /* of 8 characters */                                             \
    X(SHORT)         /* has one or two characters */                                   \
    X(NATIVE_SHORT)  /* SHORT, of a native one */                                      \
    X(CAPITALS)      /* has a capital behind a small letter */                         \
    X(DIGITS)        /* has a digit beside a letter */                                 \
    X(MARKS)         /* share of marks among its characters */                         \
    X(LISTED)        /* is in its model's word list */                                 \
    X(NATIVE_LISTED) /* LISTED, of a native one */

#define OCR_WORD_FEATURE_ENUM(id) OCR_WORD_##id,
enum ocr_word_feature { OCR_WORD_FEATURES(OCR_WORD_FEATURE_ENUM) OCR_WORD_FEATURE_COUNT };
#undef OCR_WORD_FEATURE_ENUM

/* The features of the word at `index`. */
void ocr_word_features(const struct ocr_words *words, size_t index,
                       double features[OCR_WORD_FEATURE_COUNT]);

/* How likely the word at `index` is read right. */
double ocr_word_likelihood(const struct ocr_words *words, size_t index);

/* Whether a model of another script may read a word of the line better. */
bool ocr_words_are_doubtful(const struct ocr_words *words);

/* How many letters of a line that was chosen from several readings `model` has read surely in its own script, each counting
 * by how much likelier its word is right than not; an ideograph or a syllable counts twice, a letter that is a word of
 * its own half. 0 where they are too small a part of the line's letters. Appends the words to `text`, each with a blank
 * behind it. */
double ocr_words_letters_by(const struct ocr_words *words, const char *model,
                            struct cv_buffer *text);

/* Makes `words` the best of both readings of one picture, whose capitals are `tall` pixels high:
 * of all sequences of words that do not overlap, that which is likeliest right over most of the
 * line. */
CV_MUST_CHECK int ocr_words_choose(struct ocr_words *words, const struct ocr_words *others,
                                   int tall, struct cv_error *error);
