/* Answers with objects of the store: /media/{grant}/{key}, and operations whose answer is an object
 * instead of JSON. The kernel sends the file of a directory store. From a bucket, playlists and
 * other small texts pass through here, because relative URIs in them are resolved against their own
 * URL; other objects are redirects to a signed URL of the bucket, or pass through as well
 * (response.h). */
#pragma once

#include "common/base/base.h"

#include "gateway/exchange.h"
#include "gateway/grant.h"

struct cv_store;

struct media_settings {
    struct grant_keys *grants;
    bool is_bucket;
    char *directory;     /* of a directory store; NULL: a bucket, or unknown; free() */
    bool passes_through; /* a bucket's objects pass through the gateway, without redirects */
};

/* The operation under which requests for /media/… are counted; it is not in the API document. */
extern const struct operation media_operation;

bool media_is_target(const char *target);

/* Answers a request for /media/…: 200, 206, 304, 307, 404 or 416. Every error in a grant or path
 * gives the same 404. */
int media_answer_target(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Replaces a JSON answer by the object named in its member "object". If the members `bytes` and
 * `offset` are present, only that part of the object is sent, as image/png. 404 if the object is
 * not in the store any more. */
int media_answer_object(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Deletes the object named in the member "remove" of a JSON answer, and empties the answer. */
int media_remove(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Replaces the members "grant" in a JSON answer and its items, {"scopes": [...], "id": …}, by
 * "expires" and "base_url", or by "url" if there is also a member "path". With "from_ms" and "to_ms"
 * the grant is of that part of the video alone; with "is_short" it ends as if its credential had. */
void media_fill_grants(struct exchange *exchange);

/* The bytes requested by a Range header. */
enum media_range { RANGE_WHOLE, RANGE_PART, RANGE_UNSATISFIABLE };
