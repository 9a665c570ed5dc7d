/* Answers with objects of the store: /media/{grant}/{key}, and operations whose answer is an object
 * instead of JSON. The kernel sends the file of a directory store. From a bucket, playlists and
 * other small texts pass through here, because relative URIs in them are resolved against their own
 * URL; other objects are redirects to a signed URL of the bucket, or pass through as well
 * (response.h). */
#pragma once

#include "common/base/base.h"

#include "gateway/exchange.h"

/* Grants let a player read a video's files without a token. A grant is part of the path of a URL,
 * so that the relative URIs in playlists work unchanged:
 *
 * /media/{grant}/{key of the object}
 *
 * A grant is base64url of: version, scopes, end (seconds since 1970, five bytes), id, and the first
 * 16 bytes of an HMAC-SHA256 of all that. It ends at a full hour, so that all requests within an
 * hour get the same URL, which caches can use. */

enum grant_scope {
    GRANT_PLAYBACK =
        1, /* of the video `id`: playlists, segments, poster, pictures of the seek bar */
    GRANT_ORIGINAL = 2, /* of the video `id`: the original */
    GRANT_CLIP = 4,     /* the clip `id` */
};

enum {
    GRANT_SIZE = 53,            /* size of the text, NUL included */
    GRANT_SECONDS = 6 * 3600,   /* that a grant is valid; up to an hour longer … */
    GRANT_AFTER_SECONDS = 3600, /* … but as long, and up to an hour, after its credential's end */
    GRANT_SECRET_MIN = 32,      /* least bytes of a secret */
};

struct grant {
    unsigned scopes; /* enum grant_scope, or-ed */
    char id[37];     /* UUID in lower case */
    int64_t until_s; /* seconds since 1970 */
};

struct grant_keys;

/* Reads `secrets`: one secret per line. The first one signs, all are accepted, so that a secret can
 * be changed while grants of the old one are in use. NULL: a random secret for the life of the
 * process. CV_ERROR_CONFIGURATION if there is none, if there are more than two, or if one is too
 * short. */
CV_MUST_CHECK int grant_keys_new(const char *secrets, struct grant_keys **ret_keys,
                                 struct cv_error *error);
void grant_keys_free(struct grant_keys *keys);
CV_DEFINE_CLEANUP(struct grant_keys *, grant_keys_free)

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
 * "expires" and "base_url", or by "url" if there is also a member "path". */
void media_fill_grants(struct exchange *exchange);

/* The bytes requested by a Range header. */
enum media_range { RANGE_WHOLE, RANGE_PART, RANGE_UNSATISFIABLE };
