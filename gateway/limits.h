/* How often somebody may ask: a token bucket for each caller and class of requests, of this process. A bucket holds
 * `burst` requests and gets `rate` of them a second. Callers are told apart by a text of the gateway's; addresses that
 * are one subscriber's (an IPv6 /64) share a bucket. Any thread may call these.
 */
#pragma once

#include "common/base/base.h"
#include "common/http/http.h"

#include <netinet/in.h>

enum rate_class {
    RATE_READ,
    RATE_WRITE,
    RATE_SEARCH,
    RATE_FAILURE, /* credentials that were refused, of an address */
    RATE_NOTE,    /* rows of the audit log for what was refused */
    RATE_COUNT,
};

/* "read", …: static text. */
const char *rate_class_name(enum rate_class class);

struct limits;

/* Reads "read=50:200,write=5:20": requests a second and, behind the colon, the burst, of the classes that are named; 0
 * means no bound. NULL: the defaults, which docs/api.md has. CV_ERROR_CONFIGURATION when it is something else. */
CV_MUST_CHECK int limits_new(const char *text, struct limits **ret_limits, struct cv_error *error);
void limits_free(struct limits *limits);
CV_DEFINE_CLEANUP(struct limits *, limits_free)

/* What an answer tells its caller of the limit. */
struct rate_state {
    enum rate_class class;
    bool is_bounded;
    bool is_over;
    int burst;    /* requests */
    int left;     /* of them */
    int window_s; /* in which an empty bucket gets full */
    int retry_s;  /* until the next request is taken; at least 1 when is_over */
};

/* Takes one request out of the caller's bucket, if there is one in it. */
struct rate_state limits_take(struct limits *limits, enum rate_class class, const char *caller);

/* The same without taking: whether a request would be refused. */
struct rate_state limits_look(struct limits *limits, enum rate_class class, const char *caller);

/* Makes of an address the text that its subscriber's requests are counted by. `network` has ADDRESS_TEXT_SIZE bytes. */
void limits_network(const char *address, char *network);

/* Whose address a request comes from. Behind proxies that are named it is in a header, which anybody else can write,
 * too: it is read from its end, as far as what is there was added by one of these proxies. */

enum { ADDRESS_TEXT_SIZE = INET6_ADDRSTRLEN };

enum forwarded_header {
    FORWARDED_X_FORWARDED_FOR, /* "192.0.2.1, 10.0.0.7" */
    FORWARDED_STANDARD,        /* RFC 7239: "for=192.0.2.1, for=\"[2001:db8::1]:4711\"" */
};

/* Writes the address as text: that of the peer, or, where the peer is a trusted proxy, the last address in
 * `forwarded` (all lines of the header, joined by commas; NULL: none) that is none. */
void address_find(const struct sockaddr *peer, const char *forwarded, enum forwarded_header kind,
                  const struct cv_http_networks *trusted, char text[ADDRESS_TEXT_SIZE]);
