/* Objects that others upload in parts by signed URLs. */
#pragma once

#include "common/store/s3/bucket.h"

/* The backend's functions: those of store.h with a checked key. */
CV_MUST_CHECK int cv_s3_parts_find(struct cv_store *store, const char *key,
                                   struct cv_store_parts *ret_parts, struct cv_error *error);
CV_MUST_CHECK int cv_s3_parts_join(struct cv_store *store, const char *key,
                                   const struct cv_store_parts *parts,
                                   struct cv_object_info *ret_info, struct cv_error *error);
CV_MUST_CHECK int cv_s3_parts_drop(struct cv_store *store, const char *key, struct cv_error *error);
