/* Which readings are lines of text: one model, whose weights scripts/fit_accept makes from recordings
 * with truth (accept_weights.h). A picture's texture reads as letters wherever it has corners; what
 * was read has to look like text, be read alike more than once, and stand like a line. */
#pragma once

#include "workers/ocr/tracks/track.h"

/* An ideograph or a syllable counts twice: two of them are a word. */
enum ocr_weight ocr_text_weight(const char *text);

/* Marks the short lines among those present that stand beside a line of words of about their size
 * and of the same ink. Called once a frame. */
void ocr_mark_company(struct ocr_tracks *tracks);

/* What the model looks at, in the order of its weights: the name, which of a refused reading's
 * features is told as the reason, and what it says in words. */
#define OCR_FEATURES(X)                                               \
    X(BIAS, "bias", "nothing in particular")                          \
    X(CONFIDENCE, "confidence", "an unsure reading")                  \
    X(DOUBT, "doubt", "a very unsure reading")                        \
    X(WORST, "worst", "an unsure word")                               \
    X(AGREEMENT, "agreement", "two readings that differ")             \
    X(CLARITY, "clarity", "unclear ink")                              \
    X(PICTURE, "picture", "it stands on a picture")                   \
    X(FAINT, "faint", "faint ink")                                    \
    X(CUT, "cut", "an edge may cut it")                               \
    X(COMPANY, "company", "no line of words beside it")               \
    X(LETTERS, "letters", "few letters")                              \
    X(SHORT, "short", "a letter or three")                            \
    X(SHORT_CLEAR, "short_clear", "a letter or three in unclear ink") \
    X(SHORT_ALONE, "short_alone", "a letter or three alone")          \
    X(DURATION, "duration", "it stood for a moment")                  \
    X(SMALL, "small", "very small letters")                           \
    X(MARKS, "marks", "marks among the letters")                      \
    X(SINGLES, "singles", "letters that stand alone")                 \
    X(CASES, "cases", "capitals within words")                        \
    X(VOWELS, "vowels", "words without vowels")                       \
    X(NAME, "name", "not like a name or an address")                  \
    X(DENSITY, "density", "letters too far apart or too near for their size")

#define OCR_FEATURE_ENUM(id, name, words) OCR_FEATURE_##id,
enum ocr_feature { OCR_FEATURES(OCR_FEATURE_ENUM) OCR_FEATURE_COUNT };
#undef OCR_FEATURE_ENUM

/* What is known of a finished stretch of one line besides its row. */
struct ocr_standing {
    int64_t lasted_ms;
    int width;   /* of the line, in the pixels that `tall` of the row counts */
    bool is_cut; /* ends at an edge that may hide a part of it */
};

void ocr_features_of(const struct ocr_row *row, const struct ocr_standing *standing,
                     double features[OCR_FEATURE_COUNT]);

/* How likely the row is a line of text, 0…1; 0 where it has no letter. */
double ocr_acceptance(const struct ocr_row *row, const struct ocr_standing *standing);

/* Why a row is less likely than others, in words; static. */
const char *ocr_refusal(const struct ocr_row *row, const struct ocr_standing *standing);

/* The name of a feature, for scripts/fit_accept. */
const char *ocr_feature_name(enum ocr_feature feature);

/* Whether a refused stretch is kept, so that models that know its language can read it later. */
bool ocr_is_worth_keeping(const struct cv_ink *ink, int64_t lasted_ms);
