/* The right to read objects, as a text that is signed and ends. */
#pragma once

#include "common/base/base.h"

#include "gateway/media_part.h"

/* Grants let a player read a video's files without a token. A grant is part of the path of a URL,
 * so that the relative URIs in playlists work unchanged:
 *
 * /media/{grant}/{key of the object}
 *
 * A grant is a text of hexadecimal digits: scopes (2), end (12, seconds since 1970), the part of the video
 * (8 each, ms), id, and the first 16 bytes of an HMAC-SHA256 of all that. It ends at a full hour, so that
 * all requests within an hour get the same URL, which caches can use. */

enum grant_scope {
    GRANT_PLAYBACK =
        1, /* of the video `id`: playlists, segments, poster, pictures of the seek bar */
    GRANT_ORIGINAL = 2, /* of the video `id`: the original */
    GRANT_CLIP = 4,     /* the clip `id` */
};

enum {
    GRANT_SIZE = 99,            /* size of the text, NUL included */
    GRANT_SECONDS = 6 * 3600,   /* that a grant is valid; up to an hour longer … */
    GRANT_AFTER_SECONDS = 3600, /* … but as long, and up to an hour, after its credential's end */
    GRANT_SECRET_MIN = 32,      /* least bytes of a secret */
};

struct grant {
    unsigned scopes;        /* enum grant_scope, or-ed */
    char id[37];            /* UUID in lower case */
    int64_t until_s;        /* seconds since 1970 */
    struct media_part part; /* all that may be seen of the video */
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

/* The end of a grant that is made at `now_s` with a credential that ends at `expires_s` (0: never): a
 * grant does not outlive it by more than a film that is being watched may need. */
int64_t grant_end(int64_t now_s, int64_t expires_s);

/* Writes the text of a grant. Any thread, because keys do not change. */
CV_MUST_CHECK int grant_write(const struct grant_keys *keys, const struct grant *grant,
                              char text[GRANT_SIZE], struct cv_error *error);

/* Whether `text` (`length` bytes) is a grant of one of these keys that has not ended at `now_s`. */
CV_MUST_CHECK bool grant_read(const struct grant_keys *keys, const char *text, size_t length,
                              int64_t now_s, struct grant *ret_grant);

/* Whether a grant allows reading the object with this key. */
CV_MUST_CHECK bool grant_covers(const struct grant *grant, const char *key);
