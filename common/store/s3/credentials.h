/* Who we are to the object store, and until when. */
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

/* Where they come from, in this order: S3_ACCESS_KEY_ID …, AWS_ACCESS_KEY_ID …, a web identity
 * (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN), the shared file (AWS_SHARED_CREDENTIALS_FILE,
 * ~/.aws/credentials; AWS_PROFILE), a container's service, the instance's. The first that the
 * environment names is the only one asked. */
struct cv_s3_identity;

/* Reads the environment and the shared file; asks nobody yet. */
CV_MUST_CHECK int cv_s3_identity_open(const struct cv_s3_config *config,
                                      struct cv_s3_identity **ret_identity, struct cv_error *error);
void cv_s3_identity_close(struct cv_s3_identity *identity);

/* A copy of what is valid now; asks for new ones in time before the old run out, and goes on with
 * the old while nobody answers. May take seconds. Thread-safe. */
CV_MUST_CHECK int cv_s3_identity_get(struct cv_s3_identity *identity,
                                     struct cv_s3_credentials *ret_credentials,
                                     struct cv_error *error);

/* The server says that they have run out. True when asking again may help. */
bool cv_s3_identity_expire(struct cv_s3_identity *identity);
