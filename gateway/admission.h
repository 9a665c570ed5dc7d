/* Whether a request goes on: where it comes from, whose it is, whether they may do this, and how often. */
#pragma once

#include "common/probe/probe.h"

#include "gateway/exchange.h"
#include "gateway/key_source.h"

struct admission {
    struct key_source *keys;
    struct limits *limits;
    struct cv_http_networks proxies; /* whose word on addresses is believed */
    enum forwarded_header forwarded; /* where they write it */
    bool is_plain_cookie_allowed;    /* plain HTTP on loopback: the cookie without __Host- */
    struct cv_metrics *metrics;      /* may be NULL */
};

/* Finds the address, the caller and the state of their limit for an exchange whose operation is known; or refuses it
 * (400, 401, 403, 429) in exchange->answer. An API key is looked up later, by the database. */
void admission_check(const struct admission *admission, struct exchange *exchange);

/* The database knows the API key of this exchange: `claims` as JSON, NULL when there is no such key. Whether the
 * exchange goes on; else it has its answer. */
CV_MUST_CHECK bool admission_take_key(const struct admission *admission, struct exchange *exchange,
                                      const char *claims);

/* The operation that signs in: the principal is that of the token in the body. */
void admission_sign_in(const struct admission *admission, struct exchange *exchange);
