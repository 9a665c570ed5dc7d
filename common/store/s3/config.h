/* Where a bucket is and how it is spoken to: from the store's URL and the environment. */
#pragma once

#include "common/base/base.h"

struct cv_s3_config {
    char *bucket;
    char *prefix; /* "" or "a/b/": stands in front of every key on the server */
    char *scheme; /* "http" or "https" */
    char *host;   /* as in the Host header: with the port where it is not the scheme's own, with
                       the bucket in virtual-host style */
    char *public_scheme; /* the same two, as others reach the server with URLs that we sign */
    char *public_host;
    char *base; /* not encoded path in front of "/key": "" or "/bucket" */
    char *region;
    char *ca_file; /* NULL: the system's */
    bool tls;
    int64_t connect_timeout_ms;
    int64_t stall_timeout_s; /* without a byte in either direction */
    int64_t attempts;        /* of one request, the first included */
};

/* `url` is "s3://BUCKET[/PREFIX]", or NULL: S3_BUCKET. Reads S3_ENDPOINT, S3_REGION,
 * S3_ADDRESSING and the others of docs/environment.md, with AWS_* as fall-back. */
CV_MUST_CHECK int cv_s3_config_init(struct cv_s3_config *config, const char *url,
                                    struct cv_error *error);
void cv_s3_config_deinit(struct cv_s3_config *config);
