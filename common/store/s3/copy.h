/* Moving objects within the bucket: a copy, and a delete of the first. */
#pragma once

#include "common/store/s3/bucket.h"

/* The backend's call. */
CV_MUST_CHECK int cv_s3_move(struct cv_store *store, const char *from, const char *to,
                             const char *if_etag, struct cv_object_info *ret_info,
                             struct cv_error *error);
