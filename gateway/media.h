/* Objects of the store as answers: /media/{grant}/{key}, and what operations answer with an object instead of JSON.
 *
 * From a directory the kernel sends the file. From a bucket, playlists and other small texts pass through here, because
 * relative URIs in them are resolved against their own URL; everything else is a redirect to a URL that the bucket
 * itself honours, or passes through as well (response.h).
 */
#pragma once

#include "gateway/exchange.h"
#include "gateway/grant.h"

struct cv_store;

struct media_settings {
    struct grant_keys *grants;
    bool is_bucket;
    bool passes_through; /* a bucket's objects come from here, instead of by redirects */
};

/* The operation that requests for /media/… are counted as; it is in no document. */
extern const struct operation media_operation;

bool media_is_target(const char *target);

/* Answers a request for /media/…: 200, 206, 304, 307, 404 or 416. Whatever is wrong with a grant or a path is the same
 * 404. For exchange->work; `store` NULL: 503. */
void media_answer_target(struct cv_store *store, struct exchange *exchange);

/* Replaces a JSON answer by the object that it names in "object", or by the `bytes` bytes of it from `offset` where these
 * members are there, which are an image/png. What is no longer in the store is answered 404. For exchange->work. */
void media_answer_object(struct cv_store *store, struct exchange *exchange);

/* Deletes the object that a JSON answer names in "remove", and empties the answer. For exchange->work. */
void media_remove(struct cv_store *store, struct exchange *exchange);

/* Replaces the members "grant" in a JSON answer and its items, {"scopes": [...], "id": …}, by "expires" and "base_url",
 * or "url" where there is a "path" beside it. */
void media_fill_grants(struct exchange *exchange);

/* Which bytes a Range header asks for. */
enum media_range { RANGE_WHOLE, RANGE_PART, RANGE_UNSATISFIABLE };
