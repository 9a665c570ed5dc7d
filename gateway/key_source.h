/* The keys that tokens are checked with, and where they come from: a secret and a file, read at the start, and a JSON
 * Web Key Set that an issuer serves at a URL. The set is read anew every five minutes, and when a token names a key
 * that it does not have, then at most every 30 s. A set that cannot be read or used changes nothing: the keys that are
 * there stay. A thread of its own does this; requests never wait for it.
 */
#pragma once

#include "common/http/http.h"

#include "gateway/token.h"

struct key_source;

struct key_source_params {
    struct token_params tokens; /* key_set: that of a file; the URL's keys are added to it */
    const char *url;            /* NULL: none. https, or http to this machine */
    const char *ca_file;        /* NULL: the system's certificates */
    const char *allowed;        /* networks that are not public, and are meant; "" for none */
    struct cv_cancel *cancel;   /* ends a read */
};

/* Begins with the keys that are there at once; those of the URL come within the first seconds.
 * CV_ERROR_CONFIGURATION for keys or a URL that cannot be used. */
CV_MUST_CHECK int key_source_open(const struct key_source_params *params,
                                  struct key_source **ret_source, struct cv_error *error);
void key_source_close(struct key_source *source);
CV_DEFINE_CLEANUP(struct key_source *, key_source_close)

/* As token_verify, from any thread. */
CV_MUST_CHECK enum token_fault key_source_verify(struct key_source *source, const char *token,
                                                 int64_t now_s, struct principal *ret_principal);

/* As principal_make, for an API key's claims. */
CV_MUST_CHECK enum token_fault key_source_accept(struct key_source *source, const json_t *claims,
                                                 struct principal *ret_principal);
