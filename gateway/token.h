/* JSON Web Tokens (RFC 7519, RFC 7515): whose request this is. cjose verifies signatures; everything that says which key
 * and which algorithm, and what claims are worth, is decided here before and after it.
 *
 * The algorithm is the key's, and the header has to name it. `jku`, `jwk`, `x5u` and `x5c` are never read. A set of keys
 * is not changed after it was made, so that threads share it.
 */
#pragma once

#include "common/base/base.h"

/* Why a token is refused. The names are those of the metric cortana_api_auth_failures_total. */
enum token_fault {
    TOKEN_GOOD,
    TOKEN_MALFORMED, /* not three parts of canonical base64url with JSON in them */
    TOKEN_ALGORITHM, /* none that any key here has */
    TOKEN_KEY,       /* names a key that is not known */
    TOKEN_SIGNATURE,
    TOKEN_EXPIRED, /* also: says not when it expires */
    TOKEN_EARLY,
    TOKEN_ISSUER,
    TOKEN_AUDIENCE,
    TOKEN_SUBJECT,     /* sub is no UUID */
    TOKEN_ROLE,        /* names a role that nobody gets by a token: 403 */
    TOKEN_UNKNOWN_KEY, /* an API key that is not there, has ended, or is not for this address */
};

/* What a caller may do, each what those before it may, too. */
enum caller_role {
    CALLER_NOBODY,
    CALLER_VIEWER,   /* reads what is theirs and their teams' */
    CALLER_EDITOR,   /* makes and changes it */
    CALLER_ADMIN,    /* manages it: bulk changes, API keys, the audit log */
    CALLER_OPERATOR, /* all tenants' and the fleet, but makes no key of the service */
    CALLER_SERVICE,  /* everything */
};

/* "malformed", …: static text. */
const char *token_fault_name(enum token_fault fault);

struct token_keys;

struct token_params {
    const char *secret; /* for HS256, at least 32 bytes; NULL: none */
    const char
        *key_set; /* text of a JSON Web Key Set (RFC 7517) with RSA and P-256 keys; NULL: none */
    const char *issuer;   /* what `iss` has to be; NULL: anything */
    const char *audience; /* what `aud` has to be or hold */
    const char
        *default_role; /* of tokens without app_metadata.cortana_role: viewer, editor or admin */
    bool is_without_service; /* refuses role service_role, and operators */
    bool may_be_empty;       /* keys come later */
};

/* CV_ERROR_CONFIGURATION when there is no key to check anything with, or one that is too weak. */
CV_MUST_CHECK int token_keys_new(const struct token_params *params, struct token_keys **ret_keys,
                                 struct cv_error *error);
void token_keys_free(struct token_keys *keys);
CV_DEFINE_CLEANUP(struct token_keys *, token_keys_free)

enum {
    CALLER_NAME_SIZE = 48,
    KEY_DIGEST_SIZE = 65, /* SHA-256, in hexadecimal digits */
};

/* Who asks, as a verified token or an API key says. */
struct principal {
    const char *database_role; /* anon, authenticated, cortana_app or service_role: static text */
    enum caller_role role;
    char *claims;                     /* JSON; free() */
    int64_t expires_s;                /* since 1970, of the token; 0: never */
    char name[CALLER_NAME_SIZE];      /* "user:UUID", "key:UUID", "service", "nobody" */
    char key_digest[KEY_DIGEST_SIZE]; /* of an API key that nobody has looked up yet; else "" */
};
void principal_deinit(struct principal *principal);

/* Makes the principal of claims that are to be believed: those of a verified token, or of an API key. Takes nothing
 * over. TOKEN_ROLE, TOKEN_SUBJECT or TOKEN_MALFORMED (no memory) when they are not enough. */
CV_MUST_CHECK enum token_fault principal_make(const struct token_keys *keys, const json_t *claims,
                                              struct principal *ret_principal);

/* Verifies a token at the time `now_s` (seconds since 1970). TOKEN_GOOD and the principal, which the caller
 * deinits; or why not. */
CV_MUST_CHECK enum token_fault token_verify(const struct token_keys *keys, const char *token,
                                            int64_t now_s, struct principal *ret_principal);
