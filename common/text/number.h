/* Numbers as people write them, to plain decimals. */
#pragma once

#include "common/base/base.h"

/* The parts of a matched number; each is a slice of the text, NULL when it is not there. */
struct cv_number_part {
    const char *text;
    size_t length;
};
struct cv_number_parts {
    struct cv_number_part sign, digits, scale, currency, unit;
};

/* "1.204,50" with currency "€" → "1204.50 EUR"; "1.2" with scale "K" → "1200"; "42" with unit "%"
 * → "42 %". Appends to `normalized`; false when the digits make no number. */
CV_MUST_CHECK bool cv_number_normalize(const struct cv_number_parts *parts,
                                       struct cv_buffer *normalized);

/* "+49 (30) 901820" → "+4930901820"; false when there are too few or too many digits for a phone
 * (7 to 15, E.164). */
CV_MUST_CHECK bool cv_phone_normalize(const char *text, size_t length,
                                      struct cv_buffer *normalized);
