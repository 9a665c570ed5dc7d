/* Reads the credential of a request, and detects requests that a page of another site made the
 * browser send. */
#pragma once

#include "gateway/exchange.h"
#include "gateway/key_source.h"

/* Fills exchange->principal: anon if there is no credential; only the digest if it is an API key.
 * Or refuses (401, 403, 400) in exchange->answer. Returns why a token was refused, for the metrics;
 * NULL: it was not. */
const char *caller_identify(struct exchange *exchange, struct key_source *keys,
                            bool is_plain_cookie_allowed);

/* For an operation that signs in or out: the principal is anon, whatever cookie the browser still
 * has. Refuses (403) requests that come from a page of another site. Returns as caller_identify. */
const char *caller_identify_newcomer(struct exchange *exchange);

/* Takes the member "token" out of exchange->values, sets the principal from it, and makes the token
 * a cookie of the answer; or refuses (401, 403). Returns as caller_identify. */
const char *caller_sign_in(struct exchange *exchange, struct key_source *keys,
                           bool is_plain_cookie_allowed);

/* Answers so that the browser deletes the cookie. */
void caller_sign_out(struct exchange *exchange, bool is_plain_cookie_allowed);

/* Returns the value of the last cookie with this name in a Cookie header, and its length; NULL:
 * there is none. Adds the number of cookies with this name to *ret_count. */
const char *caller_find_cookie(const char *cookies, const char *name, size_t *ret_length,
                               int *ret_count);
