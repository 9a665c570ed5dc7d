/* The credentials for the object store, and their expiry. */
#pragma once

#include "common/store/s3/config.h"

struct cv_s3_credentials {
    char *access_key;
    char *secret_key;
    char *session_token; /* NULL: none */
    int64_t expires_ms;  /* wall clock; 0: never */
};

void cv_s3_credentials_deinit(struct cv_s3_credentials *credentials);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_s3_credentials, cv_s3_credentials_deinit)

/* The source of credentials. In this order: S3_ACCESS_KEY_ID …, AWS_ACCESS_KEY_ID …, a web identity
 * (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN), the shared file (AWS_SHARED_CREDENTIALS_FILE,
 * ~/.aws/credentials; AWS_PROFILE), a container's service, the instance's service. Only the first
 * one that the environment names is used. */
struct cv_s3_identity;

/* Reads the environment and the shared file; sends no request yet. */
CV_MUST_CHECK int cv_s3_identity_open(const struct cv_s3_config *config,
                                      struct cv_s3_identity **ret_identity, struct cv_error *error);
void cv_s3_identity_close(struct cv_s3_identity *identity);

/* Copies the valid credentials. Requests new ones before they expire, and continues with the old
 * ones while there is no answer. May take seconds. Thread-safe. */
CV_MUST_CHECK int cv_s3_identity_get(struct cv_s3_identity *identity,
                                     struct cv_s3_credentials *ret_credentials,
                                     struct cv_error *error);

/* Records that the server calls them expired. Returns whether new ones may be available. */
bool cv_s3_identity_expire(struct cv_s3_identity *identity);
