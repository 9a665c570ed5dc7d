/* JSON Web Tokens (RFC 7519, RFC 7515), which identify the caller. cjose verifies signatures; this
 * file chooses the key and the algorithm before, and judges the claims after it. The algorithm is
 * that of the key, and the header must name it. `jku`, `jwk`, `x5u` and `x5c` are never read. A set
 * of keys does not change after it was made, so threads share it. */
#pragma once

#include "common/base/base.h"

/* Why a token is refused. The names are those of the metric cortana_api_auth_failures_total. */
enum token_fault {
    TOKEN_GOOD,
    TOKEN_MALFORMED, /* not three parts of canonical base64url with JSON in them */
    TOKEN_ALGORITHM, /* an algorithm that no key has */
    TOKEN_KEY,       /* names an unknown key */
    TOKEN_SIGNATURE,
    TOKEN_EXPIRED, /* also: has no expiry time */
    TOKEN_EARLY,
    TOKEN_ISSUER,
    TOKEN_AUDIENCE,
    TOKEN_SUBJECT,     /* sub is not a UUID */
    TOKEN_ROLE,        /* names a role that tokens cannot give: 403 */
    TOKEN_UNKNOWN_KEY, /* an API key, a session or a link's code: unknown, ended, or for others */
};

/* What a caller may do; each role includes those before it. */
enum caller_role {
    CALLER_NOBODY,
    CALLER_VIEWER,   /* reads its own and its teams' objects */
    CALLER_EDITOR,   /* makes and changes them */
    CALLER_ADMIN,    /* manages them: bulk changes, API keys, the audit log */
    CALLER_OPERATOR, /* all tenants and the fleet, but makes no service key */
    CALLER_SERVICE,  /* everything */
};

/* "malformed", …: static text. */
const char *token_fault_name(enum token_fault fault);

struct token_keys;

/* The keys borrow issuer, audience and default_role; the other texts are only read. */
struct token_params {
    const char *secret; /* for HS256, at least 32 bytes; NULL: none */
    const char
        *key_set; /* text of a JSON Web Key Set (RFC 7517) with RSA and P-256 keys; NULL: none */
    const char *issuer;   /* required `iss`; NULL: any */
    const char *audience; /* required in `aud`; NULL: any */
    const char
        *default_role; /* for tokens without app_metadata.cortana_role: viewer, editor or admin */
    bool is_without_service; /* refuses role service_role, and operators */
    bool may_be_empty;       /* there may be no key yet; keys follow later */
};

/* Makes a set of keys. CV_ERROR_CONFIGURATION if there is no key, or one that is too weak. */
CV_MUST_CHECK int token_keys_new(const struct token_params *params, struct token_keys **ret_keys,
                                 struct cv_error *error);
void token_keys_free(struct token_keys *keys);
CV_DEFINE_CLEANUP(struct token_keys *, token_keys_free)

enum {
    CALLER_NAME_SIZE = 48,
    KEY_DIGEST_SIZE = 65, /* SHA-256, in hexadecimal digits */
};

/* The caller according to a verified token or an API key. */
struct principal {
    const char *database_role; /* anon, authenticated, cortana_app or service_role: static text */
    enum caller_role role;
    char *claims;                     /* JSON; free() */
    int64_t expires_s;                /* end of the token, seconds since 1970; 0: never */
    char name[CALLER_NAME_SIZE];      /* "user:UUID", "key:UUID", "service", "nobody" */
    char key_digest[KEY_DIGEST_SIZE]; /* of an API key or a session that was not looked up yet;
                                       * else "" */
};
void principal_deinit(struct principal *principal);

/* Makes the principal from trusted claims: those of a verified token, an API key or a session. Takes no
 * ownership. TOKEN_ROLE, TOKEN_SUBJECT or TOKEN_MALFORMED (no memory) if the claims do not suffice. */
CV_MUST_CHECK enum token_fault principal_make(const struct token_keys *keys, const json_t *claims,
                                              struct principal *ret_principal);

/* As token_verify, for a token that says who somebody is and not what they may do (an ID token): its claims,
 * which the caller must json_decref. */
CV_MUST_CHECK enum token_fault token_read(const struct token_keys *keys, const char *token,
                                          int64_t now_s, json_t **ret_claims);

/* Verifies a token at the time `now_s` (seconds since 1970). TOKEN_GOOD and the principal, which
 * the caller must deinit; otherwise the fault. */
CV_MUST_CHECK enum token_fault token_verify(const struct token_keys *keys, const char *token,
                                            int64_t now_s, struct principal *ret_principal);
