/* Metadata as header values: ASCII as it is, the rest in RFC 2047's base 64 form, as S3 itself gives
 * it back. */
#pragma once

#include "common/base/base.h"

/* free() it. */
CV_MUST_CHECK int cv_s3_metadata_encode(const char *value, char **ret_text, struct cv_error *error);

/* In place; what is not in that form stays as it is. */
void cv_s3_metadata_decode(char *text);
