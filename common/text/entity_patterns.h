/* The patterns behind entity extraction, in the order in which they claim their part of a text. */
#pragma once

#include <stddef.h>

enum cv_entity_kind {
    CV_ENTITY_URL,
    CV_ENTITY_BARE_URL,
    CV_ENTITY_MAIL, /* claimed so that nothing is found inside; no entity of its own */
    CV_ENTITY_MENTION,
    CV_ENTITY_HASHTAG,
    CV_ENTITY_EMOJI,
    CV_ENTITY_STRUCTURED, /* times, dates, versions: claimed, no entity */
    CV_ENTITY_PHONE,
    CV_ENTITY_NUMBER,
};

struct cv_entity_pattern {
    enum cv_entity_kind kind;
    const char *type; /* NULL: what matches is claimed and not reported */
    const char *pattern;
};

extern const struct cv_entity_pattern cv_entity_patterns[];
extern const size_t cv_entity_pattern_count;
