/* Requests to URLs that somebody else has chosen: a webhook's receiver, an endpoint that embeds texts, an issuer's keys.
 *
 * Whom a request may reach is decided at each address that is about to be connected to, after the name
 * was resolved and with no second look at it: loopback, private, link-local (the metadata services
 * of clouds), multicast and all other addresses that are not public are refused unless the operator
 * has allowed their network. So neither a name whose address changes (DNS rebinding) nor another way of
 * writing an address leads inside. No redirect is followed and no proxy is used: the address that was
 * checked is the one that is spoken to.
 *
 * Public addresses are those that IANA's special-purpose registries for IPv4 and IPv6 (RFC 6890 and its
 * successors) leave.
 */
#pragma once

#include "common/base/base.h"

#include <sys/socket.h>

/* ---- networks.c: whom a request may reach ------------------------------------------------------ */

/* Networks that may be called although they are not public. */
struct cv_http_networks {
    struct {
        unsigned char address[16]; /* IPv4 as ::ffff:a.b.c.d */
        int bits;                  /* of these 128 */
    } networks[32];
    size_t count;
};

/* Reads "10.0.0.0/8,fd00::/8,127.0.0.1"; false when one of them is not a network. "" is the empty list. */
CV_MUST_CHECK bool cv_http_networks_parse(const char *text, struct cv_http_networks *ret_networks);

/* Adds the address that an operator has written as a URL's host ("10.1.2.3", "::1"), or the loopback
 * addresses for "localhost". False, and nothing is added, for a name and for a link-local address: a
 * network must be allowed for these. */
bool cv_http_networks_add_host(struct cv_http_networks *networks, const char *host);

/* Whether `address` is in one of the networks. */
bool cv_http_is_in(const struct cv_http_networks *networks, const struct sockaddr *address);

/* Whether `address` is public or in one of the networks. Other families than IPv4 and IPv6 are not. */
bool cv_http_may_call(const struct cv_http_networks *allowed, const struct sockaddr *address);

/* ---- post.c: one request ----------------------------------------------------------------------- */

/* Keeps its connection for the next request to the same host. One thread at a time. */
struct cv_http_client;

CV_MUST_CHECK int cv_http_client_open(struct cv_http_client **ret_client, struct cv_error *error);
void cv_http_client_close(struct cv_http_client *client);
CV_DEFINE_CLEANUP(struct cv_http_client *, cv_http_client_close)

struct cv_http_request {
    const char *url;            /* http or https */
    const char *const *headers; /* "name: value", NULL at the end */
    const char *body;
    size_t body_length;                     /* bytes */
    size_t answer_max;                      /* bytes of the answer's body that are read */
    int64_t timeout_ms;                     /* for the whole exchange */
    const char *ca_file;                    /* NULL: the system's certificates */
    const struct cv_http_networks *allowed; /* beside what is public */
    const char *allow_setting;              /* the variable that allows networks, for the message */
    struct cv_cancel *cancel;               /* ends the wait; NULL: nothing does */
};

struct cv_http_answer {
    long status;            /* 100 to 599 */
    struct cv_buffer body;  /* what was read of it */
    bool is_cut;            /* it was longer than answer_max */
    int64_t took_ms;        /* from the resolution of the name to the last byte */
    int64_t retry_after_ms; /* what the header Retry-After says; 0: nothing */
};
void cv_http_answer_deinit(struct cv_http_answer *answer);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_http_answer, cv_http_answer_deinit)

/* The TCP port of an http or https URL; 0 when it is none. */
uint16_t cv_http_port(const char *url);

/* Sends one POST. 0 whatever the status is; the answer is the caller's to deinit. Failures are those
 * of the way there: CV_ERROR_CONNECTION, CV_ERROR_TIMEOUT, CV_ERROR_AUTHORIZATION (an address that may
 * not be called), CV_ERROR_INVALID_PAYLOAD (no URL), CV_ERROR_CANCELED. */
CV_MUST_CHECK int cv_http_post(struct cv_http_client *client, const struct cv_http_request *request,
                               struct cv_http_answer *ret_answer, struct cv_error *error);

/* Sends one GET, without the request's body; the rest as cv_http_post. */
CV_MUST_CHECK int cv_http_get(struct cv_http_client *client, const struct cv_http_request *request,
                              struct cv_http_answer *ret_answer, struct cv_error *error);
