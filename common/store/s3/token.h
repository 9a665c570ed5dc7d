/* Temporary credentials: asked for over HTTP from whoever hands them out here. */
#pragma once

#include "common/store/s3/credentials.h"

/* Who hands them out, as the environment says; texts are owned. */
enum cv_s3_token_kind {
    CV_S3_TOKEN_NONE,
    CV_S3_TOKEN_WEB_IDENTITY, /* STS, for the token in a file */
    CV_S3_TOKEN_CONTAINER,    /* the service beside a container (ECS, EKS pod identity) */
    CV_S3_TOKEN_INSTANCE,     /* the instance's metadata, version 2 */
};

struct cv_s3_token_source {
    enum cv_s3_token_kind kind;
    char *url;        /* of STS, of the container's service, of the metadata service */
    char *token_file; /* of the web identity; of the container's authorization */
    char *token;      /* the container's authorization itself */
    char *role;       /* the role's ARN */
    char *session;    /* its session's name */
    char *ca_file;    /* NULL: the system's */
};

/* Reads AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN; AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or
 * …_FULL_URI; AWS_EC2_METADATA_DISABLED. `web_identity` alone, or the two others. */
CV_MUST_CHECK int cv_s3_token_source_init(struct cv_s3_token_source *source,
                                          const struct cv_s3_config *config, bool web_identity,
                                          struct cv_error *error);
void cv_s3_token_source_deinit(struct cv_s3_token_source *source);

/* Asks, a few seconds at most for each question. */
CV_MUST_CHECK int cv_s3_token_fetch(const struct cv_s3_token_source *source,
                                    struct cv_s3_credentials *ret_credentials,
                                    struct cv_error *error);
