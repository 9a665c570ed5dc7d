/* Configures a bucket. */
#pragma once

#include "common/store/store.h"

enum cv_bucket_rules {
    CV_BUCKET_RULES_SET = 0,
    CV_BUCKET_RULES_UNKNOWN = 1, /* the server has no lifecycle rules: gc removes objects */
    CV_BUCKET_IS_DIRECTORY = 2,  /* it is a directory store: folders were made */
};

/* Makes the bucket if it is missing, allows browsers to use its signed URLs (CORS), and sets its
 * lifecycle rules (unfinished multipart uploads, clips); rules of others are kept. */
CV_MUST_CHECK int cv_bucket_init(struct cv_store *store, int64_t clip_days, bool *ret_created,
                                 struct cv_error *error);
