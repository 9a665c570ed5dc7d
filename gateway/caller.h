/* Reads the credential of a request, and detects requests that a page of another site made the
 * browser send. */
#pragma once

#include "common/probe/probe.h"

#include "gateway/exchange.h"
#include "gateway/key_source.h"

/* Returns the value of the last cookie with this name in a Cookie header, and its length; NULL:
 * there is none. Adds the number of cookies with this name to *ret_count. */
const char *caller_find_cookie(const char *cookies, const char *name, size_t *ret_length,
                               int *ret_count);

/* The same of the request's cookie of our own with this name, borrowed from the library. Browsers accept
 * __Host- cookies only over TLS, from the host itself, for all paths; only a gateway that allows plain ones
 * reads others. */
const char *caller_cookie(const struct exchange *exchange, const char *name, size_t *ret_length,
                          int *ret_count);

/* Makes the browser keep such a cookie for some time, if the answer is a success. */
void caller_set_cookie(struct exchange *exchange, const char *name, const char *value,
                       int64_t seconds);

/* SHA-256 in hexadecimal digits, by which the database finds a secret. That of 16 random bytes or more
 * reveals nothing, nor does the time of looking it up. False: no memory. */
CV_MUST_CHECK bool caller_digest(const char *secret, size_t length, char digest[KEY_DIGEST_SIZE]);

/* Decides whether a request is admitted: by its address, its credential, the caller's role and the
 * rate limits. */

struct admission {
    struct key_source *keys;
    struct limits *limits;
    struct cv_http_networks proxies; /* proxies whose headers about addresses are trusted */
    bool is_plain_cookie_allowed; /* for plain HTTP on loopback: the cookie has no __Host- prefix */
    bool is_http, is_https;       /* the schemes of the page's own origin */
    struct cv_metrics *metrics;   /* may be NULL */
};

/* Determines the address, the caller and the state of their rate limit for an exchange whose
 * operation is known; or refuses it (400, 401, 403, 429) in exchange->answer. An API key or a session is
 * looked up later, in the database. */
void admission_check(struct exchange *exchange);

/* Refuses (401, 403) if the caller's role is less than exchange->operation needs. Of a caller with an API
 * key this is done by admission_accept_key. */
void admission_check_rights(struct exchange *exchange);

/* Continues after the lookup of the exchange's API key: `claims` as JSON, NULL if there is no such
 * key. Returns whether the exchange is admitted; if not, it has its answer. */
CV_MUST_CHECK bool admission_accept_key(struct exchange *exchange, const char *claims);

/* Moves what is secret in the parameters to exchange->entry, so that no log has it. A code leaves its
 * digest in the parameters. A token is checked at once and becomes the principal and the cookie. */
void admission_read_secrets(struct exchange *exchange);

/* Whether another try of a password may be made now: at most as many as the class `failure` allows for
 * the account, unless it is used from this address already, and for wrong ones of the address. If not,
 * the exchange has its answer. `account`: an id or an e-mail address. */
CV_MUST_CHECK bool admission_may_try(struct exchange *exchange, const char *account, bool is_known);

/* STEP_LIMIT_LINKS: refuses (429) whose address has asked for more links for a new password than the class `failure` allows. */
void admission_limit_links(struct exchange *exchange);

/* Refuses who is not let in, and counts that. */
void admission_refuse_entry(struct exchange *exchange);

/* Continues after a session has begun: `session` is {"claims", "secret"} as JSON, NULL if nobody was
 * let in. Returns as admission_accept_key. The secret becomes the cookie. */
CV_MUST_CHECK bool admission_accept_session(struct exchange *exchange, const char *session);

/* Answers so that the browser deletes the cookie; the database then ends its session. */
void admission_sign_out(struct exchange *exchange);
