/* Rate limits: a token bucket for each caller and class of requests, within this process. A bucket
 * holds `burst` requests and is refilled by `rate` requests per second. The gateway identifies
 * callers by a text; addresses of one subscriber (an IPv6 /64) share a bucket. Any thread may call
 * these functions. */
#pragma once

#include "common/base/base.h"
#include "common/http/http.h"

#include <netinet/in.h>

enum rate_class {
    RATE_READ,
    RATE_WRITE,
    RATE_SEARCH,
    RATE_FAILURE, /* refused credentials, by address; tries of a password, by account */
    RATE_NOTE,    /* rows of the audit log for refused requests */
    RATE_COUNT,
};

/* "read", …: static text. */
const char *rate_class_name(enum rate_class class);

struct limits;

/* Reads "read=50:200,write=5:20": requests per second and, after the colon, the burst, for each
 * named class; 0 means no limit. NULL: the defaults in docs/api.md. CV_ERROR_CONFIGURATION for any
 * other text. */
CV_MUST_CHECK int limits_new(const char *text, struct limits **ret_limits, struct cv_error *error);
void limits_free(struct limits *limits);
CV_DEFINE_CLEANUP(struct limits *, limits_free)

/* The state of the limit as sent to the caller. */
struct rate_state {
    enum rate_class class;
    bool is_bounded;
    bool is_over;
    int burst;    /* requests */
    int left;     /* requests left */
    int window_s; /* time in which an empty bucket is refilled */
    int retry_s;  /* time until the next request is accepted; at least 1 if is_over */
};

/* Charges one request to the caller's bucket, unless it is empty. */
struct rate_state limits_charge(struct limits *limits, enum rate_class class, const char *caller);

/* The same without charging. */
struct rate_state limits_look(struct limits *limits, enum rate_class class, const char *caller);

/* Converts an address to the text by which its subscriber's requests are counted. `network` has
 * ADDRESS_TEXT_SIZE bytes. */
void limits_network(const char *address, char *network);

/* Determines the client's address. If the connection comes from a named proxy, the address is in a
 * header. Anybody could write that header, so it is read from its end, only as far as these proxies
 * have added to it. */

enum { ADDRESS_TEXT_SIZE = INET6_ADDRSTRLEN };

/* Writes the address as text. It is the peer's; but if the peer is a trusted proxy, it is the last
 * address in `forwarded` that is not one (all lines of the header, joined by commas; NULL: none). */
void address_find(const struct sockaddr *peer, const char *forwarded,
                  const struct cv_http_networks *trusted, char text[ADDRESS_TEXT_SIZE]);
