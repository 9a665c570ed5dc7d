/* The keys for checking tokens: a secret and a file, read at the start, and a JSON Web Key Set that
 * an issuer serves at a URL. The set is read again every five minutes, and at most every 30 s if a
 * token names a key that the set does not have. If a set cannot be read or used, the current keys
 * are kept. A thread reads the set; requests never wait for it. */
#pragma once

#include "gateway/token.h"

struct key_source;

/* The texts are borrowed until key_source_close. */
struct key_source_params {
    struct token_params tokens; /* key_set: the file's; the URL's keys are added to it */
    const char *url;            /* NULL: none. https, or http to this machine */
    struct cv_cancel *cancel;   /* cancels a read */
};

/* Starts with the keys that are available at once; those of the URL follow within seconds.
 * CV_ERROR_CONFIGURATION if keys or the URL cannot be used. */
CV_MUST_CHECK int key_source_open(const struct key_source_params *params,
                                  struct key_source **ret_source, struct cv_error *error);
void key_source_close(struct key_source *source);
CV_DEFINE_CLEANUP(struct key_source *, key_source_close)

/* As token_verify; callable from any thread. */
CV_MUST_CHECK enum token_fault key_source_verify(struct key_source *source, const char *token,
                                                 int64_t now_s, struct principal *ret_principal);

/* As principal_make, for the claims of an API key or a session. */
CV_MUST_CHECK enum token_fault key_source_accept(struct key_source *source, const json_t *claims,
                                                 struct principal *ret_principal);
