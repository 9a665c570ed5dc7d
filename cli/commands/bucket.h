/* What a bucket is to look like. */
#pragma once

#include "common/store/store.h"

enum cv_bucket_rules {
    CV_BUCKET_RULES_SET = 0,
    CV_BUCKET_RULES_UNKNOWN = 1, /* the server knows no lifecycle rules: gc and the scanner do it */
    CV_BUCKET_IS_DIRECTORY = 2,  /* a directory store: folders were made */
};

/* Makes the bucket where it is missing, lets browsers use signed URLs of it (CORS), and sets its lifecycle
 * rules (unfinished multipart uploads, clips); rules that are not ours stay. */
CV_MUST_CHECK int cv_bucket_init(struct cv_store *store, int64_t clip_days, bool *ret_created,
                                 struct cv_error *error);
