/* How often somebody may ask: a token bucket for each caller and class of requests, of this process. A bucket holds
 * `burst` requests and gets `rate` of them a second. Callers are told apart by a text of the gateway's; addresses that
 * are one subscriber's (an IPv6 /64) share a bucket. Any thread may call these.
 */
#pragma once

#include "common/base/base.h"

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
