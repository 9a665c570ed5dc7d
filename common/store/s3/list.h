/* Lists of a bucket, page by page (ListObjectsV2). */
#pragma once

#include "common/store/store.h"

/* The answer to a question for a page, and what was asked. */
struct cv_s3_list_answer {
    const char *text; /* XML */
    size_t length;
    const char *store_prefix; /* "" or "a/b/": in front of every key on the server */
    const char *start;        /* from behind this key on, with the prefix; "": from the first */
    const char *continuation; /* of the page before; NULL: this is the first */
};

/* Reads a page. A list that goes in circles, or whose keys are out of order, is CV_ERROR_SERVER; text that
 * is not a list is CV_ERROR_CONNECTION. `ret_list` is empty before, and the caller's to deinit whatever
 * happens. */
CV_MUST_CHECK int cv_s3_list_read(const struct cv_s3_list_answer *answer,
                                  struct cv_object_list *ret_list, struct cv_error *error);

/* The backend's call. */
CV_MUST_CHECK int cv_s3_list(struct cv_store *store, const char *prefix, const char *start_after,
                             const char *continuation, size_t limit,
                             struct cv_object_list *ret_list, struct cv_error *error);
