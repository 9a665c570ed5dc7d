#include "common/store/s3_credentials.h"

#include <pthread.h>
#include <string.h>

struct cv_s3_identity {
    pthread_mutex_t lock;
    struct cv_s3_credentials current;
};

void cv_s3_credentials_deinit(struct cv_s3_credentials *credentials)
{
    free(credentials->access_key);
    if (credentials->secret_key) {
        explicit_bzero(credentials->secret_key, strlen(credentials->secret_key));
    }
    free(credentials->secret_key);
    free(credentials->session_token);
    *credentials = (struct cv_s3_credentials){0};
}

static int copy_text(const char *text, char **ret_copy, struct cv_error *error)
{
    return text && text[0] ? cv_format(ret_copy, error, "%s", text) : 0;
}

static int read_environment(struct cv_s3_credentials *credentials, struct cv_error *error)
{
    static const char *const names[][3] = {
        {"S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY", "S3_SESSION_TOKEN"},
        {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"},
    };
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        const char *access_key = cv_env(names[i][0], NULL);
        const char *secret_key = cv_env(names[i][1], NULL);
        if (!access_key != !secret_key) {
            return cv_fail(error, CV_ERROR_CONFIGURATION, "%s is set without %s",
                           names[i][access_key ? 0 : 1], names[i][access_key ? 1 : 0]);
        }
        if (access_key) {
            int result = copy_text(access_key, &credentials->access_key, error);
            result = result ? result : copy_text(secret_key, &credentials->secret_key, error);
            return result
                       ? result
                       : copy_text(cv_env(names[i][2], NULL), &credentials->session_token, error);
        }
    }
    return 0;
}

int cv_s3_identity_open(const struct cv_s3_config *config, struct cv_s3_identity **ret_identity,
                        struct cv_error *error)
{
    (void)config;
    struct cv_s3_identity *identity = calloc(1, sizeof(*identity));
    if (!identity) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a store");
    }
    (void)pthread_mutex_init(&identity->lock, NULL);
    int result = read_environment(&identity->current, error);
    if (result == 0 && !identity->current.access_key) {
        result = cv_fail(error, CV_ERROR_CONFIGURATION,
                         "no credentials for the object store: set S3_ACCESS_KEY_ID and "
                         "S3_SECRET_ACCESS_KEY");
    }
    if (result) {
        cv_s3_identity_close(identity);
        return result;
    }
    *ret_identity = identity;
    return 0;
}

void cv_s3_identity_close(struct cv_s3_identity *identity)
{
    if (identity) {
        cv_s3_credentials_deinit(&identity->current);
        (void)pthread_mutex_destroy(&identity->lock);
        free(identity);
    }
}

static int copy(const struct cv_s3_credentials *from, struct cv_s3_credentials *to,
                struct cv_error *error)
{
    int result = copy_text(from->access_key, &to->access_key, error);
    result = result ? result : copy_text(from->secret_key, &to->secret_key, error);
    result = result ? result : copy_text(from->session_token, &to->session_token, error);
    to->expires_ms = from->expires_ms;
    return result;
}

int cv_s3_identity_get(struct cv_s3_identity *identity, struct cv_s3_credentials *ret_credentials,
                       struct cv_error *error)
{
    cv_auto(cv_s3_credentials_deinit) struct cv_s3_credentials credentials = {0};
    pthread_mutex_lock(&identity->lock);
    int result = copy(&identity->current, &credentials, error);
    pthread_mutex_unlock(&identity->lock);
    if (result == 0) {
        *ret_credentials = credentials;
        credentials = (struct cv_s3_credentials){0};
    }
    return result;
}

bool cv_s3_identity_expire(struct cv_s3_identity *identity)
{
    (void)identity;
    return false;
}

const char *cv_s3_identity_directory(const struct cv_s3_identity *identity)
{
    (void)identity;
    return NULL;
}
