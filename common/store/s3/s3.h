/* The store in a bucket of an S3 server. */
#pragma once

#include "common/store/store.h"

/* A bucket as a store; `url` "s3://BUCKET[/PREFIX]", or NULL: S3_BUCKET. Asks nobody yet. */
CV_MUST_CHECK int cv_s3_store_open(const char *url, struct cv_store **ret_store,
                                   struct cv_error *error);
