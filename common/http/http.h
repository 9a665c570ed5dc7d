/* Requests to URLs that users choose, a webhook's receiver or an issuer's keys, and to endpoints of the operator.
 *
 * Each address is checked just before the connection to it is made, after the name was resolved.
 * Loopback, private, link-local (metadata services of clouds), multicast and all other non-public
 * addresses are refused unless the operator has allowed their network. So neither a name whose
 * address changes (DNS rebinding) nor an unusual notation of an address leads into the operator's
 * network. Redirections are not followed and no proxy is used, so that the checked address is the
 * one that is connected to.
 *
 * Public addresses are those that are not in IANA's special-purpose registries for IPv4 and IPv6
 * (RFC 6890 and its successors).
 */
#pragma once

#include "common/base/base.h"

#include <sys/socket.h>

/* ---- networks.c: which addresses may be called ------------------------------------------------- */

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

/* Adds the address that an operator has written as the host of a URL ("10.1.2.3", "::1"), or the
 * loopback addresses for "localhost". False, without adding anything, for a name and for a
 * link-local address: these need an allowed network. */
bool cv_http_networks_add_host(struct cv_http_networks *networks, const char *host);

/* Whether `address` is in one of the networks. */
bool cv_http_is_in(const struct cv_http_networks *networks, const struct sockaddr *address);

/* Whether `address` is public or in one of the networks. False for address families other than
 * IPv4 and IPv6. */
bool cv_http_may_call(const struct cv_http_networks *allowed, const struct sockaddr *address);

/* ---- post.c: one request ----------------------------------------------------------------------- */

/* Keeps its connection for the next request to the same host. One thread at a time. */
struct cv_http_client;

CV_MUST_CHECK int cv_http_client_open(struct cv_http_client **ret_client, struct cv_error *error);
void cv_http_client_close(struct cv_http_client *client);
CV_DEFINE_CLEANUP(struct cv_http_client *, cv_http_client_close)

/* A member of a form; all are borrowed. */
struct cv_http_part {
    const char *name;
    const void *data;
    size_t length;
    const char *file_name, *media_type; /* of a file; NULL: a text */
};

struct cv_http_request {
    const char *url;                 /* http or https */
    const char *method;              /* "GET", "POST", … */
    const char *const *headers;      /* "name: value", NULL at the end */
    const char *body;                /* NULL: none */
    size_t body_length;              /* bytes */
    const struct cv_http_part *form; /* in place of `body`: multipart/form-data; NULL: none */
    size_t form_count;
    size_t answer_max; /* bytes of the answer's body that are read */
    /* Receives the body of an answer 2xx piece by piece, in place of answer.body; NULL: none does.
     * What it returns is not 0: the exchange ends with its failure. */
    int (*write)(void *opaque, const char *data, size_t length, struct cv_error *error);
    void *opaque;
    int64_t timeout_ms;                     /* for the whole exchange */
    const char *ca_file;                    /* NULL: the system's certificates */
    const struct cv_http_networks *allowed; /* in addition to public addresses */
    const char *allow_setting; /* the variable that allows networks, for the message; NULL: none */
    struct cv_cancel *cancel;  /* an abort ends the wait; may be NULL */
};

struct cv_http_answer {
    long status;            /* 100 to 599 */
    struct cv_buffer head;  /* the lines before the body, at most 64 KiB */
    struct cv_buffer body;  /* at most answer_max bytes */
    bool is_cut;            /* the body was longer */
    int64_t took_ms;        /* from the resolution of the name to the last byte */
    int64_t retry_after_ms; /* what the header Retry-After says; 0: nothing */
};
void cv_http_answer_deinit(struct cv_http_answer *answer);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_http_answer, cv_http_answer_deinit)

/* The TCP port of an http or https URL; 0 when `url` is no such URL. */
uint16_t cv_http_port(const char *url);

/* Sends one request. Returns 0 whatever the status is; the caller deinits the answer. Failures mean
 * that no answer came: CV_ERROR_CONNECTION, CV_ERROR_TIMEOUT, CV_ERROR_AUTHORIZATION (the
 * URL has an address that may not be called; a name that leads to one is CV_ERROR_CONNECTION), CV_ERROR_INVALID_PAYLOAD (not a URL), CV_ERROR_CANCELED. */
CV_MUST_CHECK int cv_http_send(struct cv_http_client *client, const struct cv_http_request *request,
                               struct cv_http_answer *ret_answer, struct cv_error *error);

/* ---- endpoint.c: a server that the operator has chosen ------------------------------------------ */

/* The server of a model. It may be anywhere: who writes its URL answers for where its name leads. */
struct cv_http_endpoint {
    const char *url;     /* borrowed from the environment */
    char *authorization; /* the header's line; NULL: none */
    struct cv_http_networks allowed;
};
void cv_http_endpoint_deinit(struct cv_http_endpoint *endpoint);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_http_endpoint, cv_http_endpoint_deinit)

/* Reads its URL and, if there is one, its key from the settings of these names. CV_ERROR_CONFIGURATION when the URL is
 * missing, is not an http(s) URL, or contains a user's name. */
CV_MUST_CHECK int cv_http_endpoint_read(const char *url_setting, const char *key_setting,
                                        struct cv_http_endpoint *ret_endpoint,
                                        struct cv_error *error);

/* The failure that an answer of another status than 2xx stands for; always negative. The message has the status, and the
 * reason that the body names as such endpoints do. CV_ERROR_AUTHENTICATION (401, 403) and CV_ERROR_CONFIGURATION
 * (404 and other refusals) do not go away by themselves; CV_ERROR_THROTTLED and CV_ERROR_SERVER may. */
CV_MUST_CHECK int cv_http_refusal(long status, const char *body, size_t length,
                                  struct cv_error *error);
