/* The store in a bucket of an S3 server. */
#pragma once

#include "common/store/store.h"

/* Opens a bucket as a store; `url` is "s3://BUCKET[/PREFIX]", or NULL: S3_BUCKET. Sends no request
 * yet. */
CV_MUST_CHECK int cv_s3_store_open(const char *url, struct cv_store **ret_store,
                                   struct cv_error *error);
