/* Uploads: what both ways have in common. Into a directory bytes come by PATCH, as tus 1.0 has it (upload_tus.h); into a
 * bucket the client puts parts by URLs that the bucket honours (upload_parts.h). What has come is known by the store
 * alone: the spool's size, or the bucket's list of parts. The functions are for exchange->work and go on from what
 * functions of schema api have answered. */
#pragma once

#include "common/store/store.h"

#include "gateway/exchange.h"

/* What the database has answered of an upload. */
struct upload {
    json_t *body;
    const char *id, *key; /* of `body` */
    int64_t size;
    bool is_complete; /* its end was told to the scanner */
};

/* Reads exchange->answer; false: it is none. */
CV_MUST_CHECK bool upload_read(const struct exchange *exchange, struct upload *ret_upload);
void upload_deinit(struct upload *upload);
CV_DEFINE_CLEANUP_ADDRESS(struct upload, upload_deinit)

/* The directory of a store, borrowed; NULL: it is a bucket. */
const char *upload_directory(const struct cv_store *store);

/* The key under which bytes gather in a directory. */
CV_MUST_CHECK int upload_spool_key(const char *id, char **ret_key, struct cv_error *error);

/* 204, in place of what is in the answer. */
void upload_answer_empty(struct answer *answer);
void upload_set_tus_headers(struct answer *answer, int64_t offset, int64_t size);
/* Makes a JSON value the answer's body. */
CV_MUST_CHECK int upload_set_body(struct answer *answer, const json_t *body,
                                  struct cv_error *error);

/* Adds "mode", "offset", "part_size" and "parts" to an upload, and the headers of tus. A bucket's upload in parts is begun
 * where it is not. */
void upload_show(struct cv_store *store, struct exchange *exchange);

/* Deletes what has come. */
void upload_forget(struct cv_store *store, struct exchange *exchange);
