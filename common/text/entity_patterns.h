/* The patterns behind entity extraction, in the order in which they claim their part of a text. */
#pragma once

#include <stddef.h>

/* By which form of their value two entities of a type are equal. */
enum cv_entity_form {
    CV_ENTITY_TEXT, /* the normal form of a text, which SQL makes */
    CV_ENTITY_URL,
    CV_ENTITY_PHONE,
    CV_ENTITY_NUMBER,
};

struct cv_entity_pattern {
    const char *type; /* NULL: what matches is claimed and not reported, nor anything inside it */
    enum cv_entity_form form;
    const char *pattern;
};

extern const struct cv_entity_pattern cv_entity_patterns[];
extern const size_t cv_entity_pattern_count;
