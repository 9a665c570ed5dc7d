/* The location of a bucket and how to access it, from the store's URL and the environment. */
#pragma once

#include "common/base/base.h"

struct cv_s3_config {
    char *bucket;
    char *prefix;        /* "" or "a/b/": prefix of every key on the server */
    char *scheme;        /* "http" or "https" */
    char *host;          /* of the Host header: with a port if not the default one */
    char *public_scheme; /* scheme and host for signed URLs that others use */
    char *public_host;
    char *base; /* path before "/key", not encoded: "" or "/bucket" */
    char *region;
    char *ca_file; /* NULL: the system's certificates */
    bool tls;
    int64_t stall_timeout_s; /* longest time without a byte in either direction */
    int64_t attempts;        /* attempts per request, the first included */
};

/* `url` is "s3://BUCKET[/PREFIX]", or NULL: S3_BUCKET. Reads S3_ENDPOINT, S3_REGION,
 * S3_ADDRESSING and the others of docs/environment.md, with AWS_* as fall-back. */
CV_MUST_CHECK int cv_s3_config_init(struct cv_s3_config *config, const char *url,
                                    struct cv_error *error);
void cv_s3_config_deinit(struct cv_s3_config *config);
