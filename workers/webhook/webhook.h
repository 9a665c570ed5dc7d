/* The webhook worker: delivers one event to one URL, signed.
 *
 * The form is that of Standard Webhooks (standardwebhooks.com, specification 1.0.0): headers
 * webhook-id, webhook-timestamp and webhook-signature, HMAC-SHA-256 over "id.timestamp.body" with
 * each secret that is valid. Whom it may speak to is checked at the address that is connected to,
 * so that no name and no redirect leads into the network that it runs in.
 */
#pragma once

#include "common/base/base.h"

#include <sys/socket.h>

/* ---- sign.c ---- */

enum {
    WEBHOOK_SIGNATURE_SIZE = 48,   /* "v1," and 44 characters of base64, with the NUL */
    WEBHOOK_SECRET_BYTES_MIN = 24, /* as the specification has them */
    WEBHOOK_SECRET_BYTES_MAX = 64,
};

/* "v1,…" for one secret ("whsec_" and base64) into `signature`. CV_ERROR_CONFIGURATION for what is
 * no secret, without a word of it. */
CV_MUST_CHECK int webhook_sign(const char *secret, const char *id, int64_t timestamp_s,
                               const char *body, size_t length,
                               char signature[WEBHOOK_SIGNATURE_SIZE], struct cv_error *error);

/* ---- address.c ---- */

/* Networks that may be called although they are not public. */
struct webhook_allowed {
    struct {
        unsigned char address[16]; /* IPv4 as ::ffff:a.b.c.d */
        int bits;                  /* of these 128 */
    } networks[32];
    size_t count;
};

/* Reads "10.0.0.0/8,fd00::/8,127.0.0.1"; false when it is none. "" allows nothing. */
CV_MUST_CHECK bool webhook_allowed_parse(const char *text, struct webhook_allowed *ret_allowed);

/* Whether an address is one of the public internet's, or among those that are allowed. What is
 * neither IPv4 nor IPv6 is not. */
bool webhook_may_call(const struct webhook_allowed *allowed, const struct sockaddr *address);

/* ---- deliver.c ---- */

struct webhook_delivery {
    const char *url;
    const char *id;
    int64_t timestamp_s;
    const char *signatures; /* those of all secrets, with blanks between */
    const char *body;
    size_t length;
    int64_t timeout_ms;  /* for all of it */
    const char *ca_file; /* NULL: the system's */
    const struct webhook_allowed *allowed;
    struct cv_cancel *cancel;
};

struct webhook_answer {
    long status; /* 0: none came */
    int64_t took_ms;
    int64_t retry_after_ms; /* 0: not said */
    char text[256];         /* how the answer's body begins, in plain ASCII */
};

/* Sends it once, follows nobody, and reads no more of the answer than it must. 0 whatever the
 * status is; failures are those of the way there: CV_ERROR_CONNECTION, CV_ERROR_TIMEOUT,
 * CV_ERROR_AUTHORIZATION for an address that may not be called, CV_ERROR_CANCELED. */
CV_MUST_CHECK int webhook_send(const struct webhook_delivery *delivery,
                               struct webhook_answer *ret_answer, struct cv_error *error);
