/* Whether two readings are of one line, as far as their texts can tell. Place and time are the
 * caller's. */
#pragma once

#include "common/base/base.h"

/* A text made ready for comparing. Its skeleton (the term of Unicode's UTS #39) is its letters and
 * digits without accents, blanks and punctuation; letters that OCR confuses (0/o, 1/l/i, 5/s, 8/b,
 * rn/m, vv/w) are the same letter in it. */
struct cv_text_key {
    const char *normalized; /* borrowed */
    int32_t *skeleton;
    size_t count;    /* of letters in the skeleton */
    uint64_t hash;   /* of the normalized text */
    uint64_t digits; /* of its digits, in order */
};

CV_MUST_CHECK int cv_text_key_init(struct cv_text_key *key, const char *normalized,
                                   struct cv_error *error);
void cv_text_key_deinit(struct cv_text_key *key);

enum cv_likeness {
    CV_LIKENESS_NONE,
    CV_LIKENESS_READING, /* two readings of one text */
    CV_LIKENESS_SAME,    /* equal normal forms */
};

/* Why two texts are not readings of one, in words; NULL: they are. */
const char *cv_text_difference(const struct cv_text_key *first, const struct cv_text_key *second);

enum cv_likeness cv_text_likeness(const struct cv_text_key *first,
                                  const struct cv_text_key *second);
