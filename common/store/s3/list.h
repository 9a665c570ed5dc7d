/* Lists a bucket page by page (ListObjectsV2). */
#pragma once

#include "common/store/store.h"

/* The answer to a request for a page, and the request's parameters. */
struct cv_s3_list_answer {
    const char *text; /* XML */
    size_t length;
    const char *store_prefix; /* "" or "a/b/": prefix of every key on the server */
    const char *start;        /* list keys after this one, prefix included; "": from the first */
    const char *continuation; /* continuation from the page before; NULL: this is the first */
};

/* Reads a page. CV_ERROR_SERVER if the list repeats itself or its keys are out of order;
 * CV_ERROR_CONNECTION if the text is not a list. `ret_list` must be empty; the caller must deinit
 * it in any case. */
CV_MUST_CHECK int cv_s3_list_read(const struct cv_s3_list_answer *answer,
                                  struct cv_object_list *ret_list, struct cv_error *error);

/* The backend's function. */
CV_MUST_CHECK int cv_s3_list(struct cv_store *store, const struct cv_listing *listing,
                             struct cv_object_list *ret_list, struct cv_error *error);
