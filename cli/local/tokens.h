/* Tokens for the HTTP API, and what a local installation signs them with.
 *
 *   DIR/gateway.secret  of HS256 tokens; only the installation's user may read it
 *   DIR/owner           the id of the user whose the videos are that `run` takes in
 */
#pragma once

#include "cli/local/installation.h"

enum { CLI_OWNER_SIZE = 37, CLI_HOURS_MAX = 24 * 366 };

/* Makes both files where they are missing. One process at a time: whoever holds the installation's `running`. */
CV_MUST_CHECK int cli_tokens_prepare(const char *directory, char ret_owner[CLI_OWNER_SIZE],
                                     struct cv_error *error);

/* The path of the secret's file; free() it. */
CV_MUST_CHECK int cli_tokens_secret_path(const char *directory, char **ret_path,
                                         struct cv_error *error);

/* The secret that the gateway checks tokens with: CORTANA_JWT_SECRET, the file CORTANA_JWT_SECRET_FILE, or the
 * installation's in `directory`, which comes first where `is_local`. free() it. */
CV_MUST_CHECK int cli_tokens_secret(const char *directory, bool is_local, char **ret_secret,
                                    struct cv_error *error);

struct cli_token {
    const char *user;         /* UUID; NULL: nobody's, of a service */
    const char *const *teams; /* UUIDs; NULL at the end; NULL: none */
    const char *role;         /* viewer, editor, admin or service */
    const char *audience;     /* NULL: what the gateway expects by itself */
    const char *issuer;       /* NULL: says none */
    int64_t hours;            /* 1 to CLI_HOURS_MAX */
};

/* A JSON Web Token signed with HS256; free() it. */
CV_MUST_CHECK int cli_tokens_make(const struct cli_token *token, const char *secret,
                                  char **ret_text, struct cv_error *error);
