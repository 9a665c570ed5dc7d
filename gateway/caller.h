/* Which credential a request brings, and whether a page of another site made the browser send it. */
#pragma once

#include "gateway/exchange.h"
#include "gateway/key_source.h"

/* Fills exchange->principal, anon without a credential, with the digest alone for an API key; or refuses (401, 403, 400) in exchange->answer. Returns why a
 * token was refused, for the metrics; NULL: it was not. */
const char *caller_identify(struct exchange *exchange, struct key_source *keys,
                            bool is_plain_cookie_allowed);

/* For an operation that signs in or out, whatever cookie the browser still has: anon; or refuses (403) what a page of
 * another site makes the browser send. Returns as caller_identify. */
const char *caller_identify_newcomer(struct exchange *exchange);

/* Makes the principal that of the member "token" of exchange->values, which it takes out, and the token a cookie for
 * the answer; or refuses (401, 403). Returns as caller_identify. */
const char *caller_sign_in(struct exchange *exchange, struct key_source *keys,
                           bool is_plain_cookie_allowed);

/* The answer that makes the browser forget the cookie. */
void caller_sign_out(struct exchange *exchange, bool is_plain_cookie_allowed);

/* The value of the last cookie of this name in the text of a Cookie header, and how long it is; NULL: there is none.
 * Adds to *ret_count how often the name is there. */
const char *caller_find_cookie(const char *cookies, const char *name, size_t *ret_length,
                               int *ret_count);
