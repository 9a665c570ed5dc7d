/* Uploads. Into a directory they come by PATCH, as tus 1.0 has it (core, termination), and lie beside their place until
 * they are whole; how far one is says the file itself. Into a bucket the client puts the object, by a URL that the bucket
 * honours. The functions are for exchange->work and go on from what functions of schema api have answered. */
#pragma once

#include "gateway/exchange.h"

struct cv_store;

enum { UPLOAD_PART_MAX_BYTES = 8 * 1024 * 1024 }; /* of one PATCH, which is kept in memory */

/* Adds "mode", "offset" and "url" to an upload, and the headers of tus. */
void upload_show(struct cv_store *store, struct exchange *exchange);

/* Writes the request's body behind what is there: 204, 409 for another offset, 423 while somebody else writes. When that
 * was the last part, the object is put in its place and exchange->is_last_part set. The bytes are on the disk when this
 * returns. */
void upload_append(struct cv_store *store, struct exchange *exchange);

/* Deletes what has come. */
void upload_forget(struct cv_store *store, struct exchange *exchange);
