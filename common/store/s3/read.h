/* Reads objects: whole, many at once, and at random positions. */
#pragma once

#include "common/store/s3/bucket.h"

/* The backend's functions. */
CV_MUST_CHECK int cv_s3_get_begin(struct cv_store *store, const char *key, size_t limit,
                                  struct cv_store_get **ret_get, struct cv_error *error);
CV_MUST_CHECK int cv_s3_get_end(struct cv_store_get *get, void **ret_data, size_t *ret_size,
                                struct cv_error *error);
void cv_s3_get_stop(struct cv_store_get *get);
CV_MUST_CHECK int cv_s3_open_reader(struct cv_store *store, const char *key,
                                    struct cv_store_reader **ret_reader, struct cv_error *error);
