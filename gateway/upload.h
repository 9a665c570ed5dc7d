/* Uploads: what both ways have in common. Into a directory bytes come by PATCH, as tus 1.0 has it; into a
 * bucket the client puts parts by URLs that the bucket honours. What has come is known by the store
 * alone: the spool's size, or the bucket's list of parts. The functions are for exchange->work and go on from what
 * functions of schema api have answered. */
#pragma once

#include "common/store/store.h"

#include "gateway/exchange.h"

/* Adds "mode", "offset", "part_size" and "parts" to an upload, and the headers of tus. A bucket's upload in parts is begun
 * where it is not. */
void upload_show(struct cv_store *store, struct exchange *exchange);

/* Deletes what has come. */
void upload_forget(struct cv_store *store, struct exchange *exchange);

/* Uploads into a bucket: the client puts parts by URLs that the bucket honours, in any order and several at once, and the
 * gateway lists and joins them. The bucket knows which upload a key has and what has come of it, so that a client goes on
 * after a reload, and any gateway serves it. */

/* Answers with a URL for each of the "numbers". 409 for a directory. */
void upload_sign_parts(struct cv_store *store, struct exchange *exchange);

/* Joins the parts, or sees that all bytes are in place, and sets exchange->is_joined; 409 where some are missing. */
void upload_join(struct cv_store *store, struct exchange *exchange);

/* Uploads into a directory: tus 1.0 (core, creation, termination). Bytes lie beside their place until they are whole; how
 * far an upload is says the size of that file. A request's body goes to the disk piece by piece as it comes, so that a
 * request may bring any number of bytes, and what has come of one that broke off stays. */

enum { UPLOAD_PIECE_BYTES = 256 * 1024 }; /* of a body, in memory until it is written */

/* Opens the file that the request's bytes go to, as its only writer, and sets exchange->part; else refuses: 409 for another
 * offset, 423 while somebody else writes. */
void upload_open(struct cv_store *store, struct exchange *exchange);

/* Writes what has come (exchange->body) and empties it. */
void upload_write(struct cv_store *store, struct exchange *exchange);

/* The same behind the last byte of the request: 204, the bytes are on the disk. Where the upload is whole, the object is
 * put in its place and exchange->is_last_part set. */
void upload_close(struct cv_store *store, struct exchange *exchange);

/* Lets the file go. */
void upload_part_free(struct upload_part *part);

/* Whether POST /uploads comes as tus has it. */
bool upload_is_tus_creation(const struct exchange *exchange);

/* tus' creation says in headers what POST /uploads has in its body: makes that body. false: no Upload-Length, or out of
 * memory. */
CV_MUST_CHECK bool upload_translate_creation(struct exchange *exchange);

/* What OPTIONS /uploads tells of this server. */
void upload_answer_options(struct exchange *exchange);
