/* Uploads into a bucket: the client puts parts by URLs that the bucket honours, in any order and several at once, and the
 * gateway lists and joins them. The bucket knows which upload a key has and what has come of it, so that a client goes on
 * after a reload, and any gateway serves it. */
#pragma once

#include "gateway/upload.h"

/* Adds "part_size" and "parts" to an upload; *ret_offset: how many bytes there are. */
CV_MUST_CHECK int upload_show_parts(struct cv_store *store, const struct upload *upload,
                                    int64_t *ret_offset, struct cv_error *error);

/* Answers with a URL for each of the "numbers". 409 for a directory. */
void upload_sign_parts(struct cv_store *store, struct exchange *exchange);

/* Joins the parts, or sees that all bytes are in place, and sets exchange->is_joined; 409 where some are missing. */
void upload_join(struct cv_store *store, struct exchange *exchange);
