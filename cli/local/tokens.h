/* Tokens for the HTTP API, and the secret with which a local installation signs them.
 *
 * DIR/gateway.secret: the secret of HS256 tokens; only the installation's user may read it.
 *
 * DIR/owner: the id of the user who owns the videos that `run` imports. */
#pragma once

#include "cli/local/installation.h"

enum { CLI_OWNER_SIZE = 37, CLI_HOURS_MAX = 24 * 366 };

/* Makes both files if they are missing. Call it while holding the lock DIR/running. */
CV_MUST_CHECK int cli_tokens_prepare(const char *directory, char ret_owner[CLI_OWNER_SIZE],
                                     struct cv_error *error);

/* Writes DIR/owner: the videos of a backup that was restored here belong to this user. */
CV_MUST_CHECK int cli_tokens_keep_owner(const char *directory, const char *owner,
                                        struct cv_error *error);

/* Makes the path of the secret's file; free() it. */
CV_MUST_CHECK int cli_tokens_secret_path(const char *directory, char **ret_path,
                                         struct cv_error *error);

/* The secret with which the gateway checks tokens: CORTANA_JWT_SECRET, the file
 * CORTANA_JWT_SECRET_FILE, or the installation's in `directory`, which is preferred if `is_local`.
 * free() it. */
CV_MUST_CHECK int cli_tokens_secret(const char *directory, bool is_local, char **ret_secret,
                                    struct cv_error *error);

struct cli_token {
    const char *user;         /* UUID; NULL: a service's token without user */
    const char *const *teams; /* UUIDs, ended by NULL; NULL: none */
    const char *role;         /* viewer, editor, admin or service */
    const char *audience;     /* NULL: the gateway's default */
    const char *issuer;       /* NULL: none */
    int64_t hours;            /* 1 to CLI_HOURS_MAX */
};

/* Makes a JSON Web Token signed with HS256; free() it. */
CV_MUST_CHECK int cli_tokens_make(const struct cli_token *token, const char *secret,
                                  char **ret_text, struct cv_error *error);
