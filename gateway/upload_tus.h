/* Uploads into a directory: tus 1.0 (core, creation, termination). Bytes lie beside their place until they are whole; how
 * far an upload is says the size of that file. A request's body goes to the disk piece by piece as it comes, so that a
 * request may bring any number of bytes, and what has come of one that broke off stays. */
#pragma once

#include "gateway/upload.h"

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
