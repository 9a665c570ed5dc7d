/* Signatures of Standard Webhooks. */
#pragma once

#include "common/base/base.h"

enum {
    WEBHOOK_SIGNATURE_SIZE = 48,   /* "v1," and 44 characters of base64, with the NUL */
    WEBHOOK_SECRET_BYTES_MIN = 24, /* as the specification has them */
    WEBHOOK_SECRET_BYTES_MAX = 64,
};

/* Writes the signature "v1,…" with one secret ("whsec_" and base64). CV_ERROR_CONFIGURATION if
 * `secret` is not a valid secret; the message does not contain it. */
CV_MUST_CHECK int webhook_sign(const char *secret, const char *id, int64_t timestamp_s,
                               const char *body, size_t length,
                               char signature[WEBHOOK_SIGNATURE_SIZE], struct cv_error *error);
