/* Configures a bucket. */
#pragma once

#include "common/store/store.h"

/* A bucket's rules; several make a set. */
enum cv_bucket_rule {
    CV_BUCKET_UNFINISHED = 1, /* lifecycle: unfinished multipart uploads go */
    CV_BUCKET_CLIPS = 2,      /* lifecycle: clips expire */
    CV_BUCKET_SITES = 4,      /* CORS: browsers may use signed URLs */
};

enum {
    CV_BUCKET_MULTIPART_DAYS = 2, /* an unfinished upload older than two days has been abandoned */
    CV_BUCKET_IS_DIRECTORY = 1    /* it is a directory store: folders were made */
};

/* Makes the bucket if it is missing, and sets its rules; rules of others are kept. *ret_unknown is
 * the set of rules that the server does not know: what the lifecycle rules would remove, the scanner
 * and gc remove. `clip_days`: 0: clips do not expire. */
CV_MUST_CHECK int cv_bucket_init(struct cv_store *store, int64_t clip_days, bool *ret_created,
                                 unsigned *ret_unknown, struct cv_error *error);
