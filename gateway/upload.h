/* Uploads: what both kinds have in common. For a directory store, bytes arrive by PATCH according
 * to tus 1.0; for a bucket, the client uploads parts to signed URLs of the bucket. Only the store
 * knows what has arrived: by the spool's size, or by the bucket's list of parts. The functions are
 * steps of threads of the store and continue from the answers of functions in schema api. */
#pragma once

#include "common/store/store.h"

#include "gateway/exchange.h"

/* Adds "mode", "offset", "part_size" and "parts" to an upload, and the headers of tus. Starts a
 * bucket's multipart upload if it has not been started. */
int upload_show(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Ends the request that has sent the last bytes: as upload_show, but with the headers alone. */
int upload_end(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Deletes the bytes that have arrived. */
int upload_forget(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Stores the parameter "text" under the "key" of the answer, and puts its size and ETag into the parameters' place,
 * for the same operation's next STEP_DATABASE. */
int upload_keep_text(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Uploads to a bucket: the client uploads parts to signed URLs, in any order and several at once;
 * the gateway lists and joins them. The bucket knows the upload of a key and its parts, so that a
 * client can continue after a reload, with any gateway. */

/* Answers with a signed URL for each of the "numbers". 409 for a directory. */
int upload_sign_parts(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Joins the parts, or finds that all bytes are stored already,; 409 if some are missing. */
int upload_join(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Uploads to a directory: tus 1.0 (core, creation, termination). Bytes are collected in a spool
 * file beside the object until they are complete; its size is the offset of the upload. The body of
 * a request is written to disk piece by piece, so that it may have any size, and the bytes of an
 * interrupted request are kept. */

enum { UPLOAD_PIECE_BYTES = 256 * 1024 }; /* bytes of a body in memory, until written */

/* Opens the spool file for the request's bytes, as its only writer, and sets exchange->part; or
 * refuses: 409 for a wrong offset, 423 while somebody else writes. */
int upload_open(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Writes the received bytes (exchange->body) and empties it. If the disk has no room for them, the
 * upload begins anew: what it has stored is removed, too, so that nobody else lacks the room. */
int upload_write(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Ends the request's bytes: answers 204 when they are safely on the disk. If the upload is
 * complete, moves the object to its place; if not, the request ends here. */
int upload_close(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Closes the file and frees the part. */
void upload_part_free(struct upload_part *part);

/* Whether POST /uploads is a creation according to tus. */
bool upload_is_tus_creation(const struct exchange *exchange);

/* Converts the headers of a tus creation to the body of POST /uploads. False: no Upload-Length, or
 * out of memory. */
CV_MUST_CHECK bool upload_translate_creation(struct exchange *exchange);

/* Refuses a creation (507) whose bytes would not leave the disk of a directory store at the level
 * "critical" at least: uploads may not use the room that lets workers go on. A bucket's room is
 * unknown. */
void upload_check_room(struct exchange *exchange);

/* Answers OPTIONS /uploads: the capabilities of this server. */
void upload_answer_options(struct exchange *exchange);
