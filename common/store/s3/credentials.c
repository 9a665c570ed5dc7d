#include "common/store/s3/credentials.h"

#include "common/store/s3/token.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>

enum {
    RENEW_AHEAD_MS = 5 * 60 * 1000, /* before they run out: minutes of clock skew and of retries */
    ASK_AGAIN_MS = 30 * 1000,       /* after a refusal while the old ones are still good */
};

struct cv_s3_identity {
    pthread_mutex_t lock; /* held while somebody asks: others wait for the answer */
    struct cv_s3_credentials current;
    struct cv_s3_token_source source;
    bool is_of_files;  /* variables whose values lie in files, which are read again */
    char *shared_file; /* NULL: not from there */
    char *profile;
    int64_t ask_not_before; /* monotonic */
    bool is_expired;        /* the server says so */
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

/* ---- variables ------------------------------------------------------------------------------- */

static int read_environment(struct cv_s3_credentials *credentials, bool *ret_is_of_files,
                            struct cv_error *error)
{
    static const char *const names[][3] = {
        {"S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY", "S3_SESSION_TOKEN"},
        {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"},
    };
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        const char *const *name = names[i];
        cv_auto(cv_s3_credentials_deinit) struct cv_s3_credentials found = {0};
        int result = cv_setting_read(name[0], &found.access_key, error);
        result = result ? result : cv_setting_read(name[1], &found.secret_key, error);
        result = result ? result : cv_setting_read(name[2], &found.session_token, error);
        if (result == 0 && !found.access_key != !found.secret_key) {
            result = cv_fail(error, CV_ERROR_CONFIGURATION, "%s is set without %s",
                             name[found.access_key ? 0 : 1], name[found.access_key ? 1 : 0]);
        }
        if (result || found.access_key) {
            *ret_is_of_files = cv_setting_has_file(name[0]) || cv_setting_has_file(name[1]);
            *credentials = result ? *credentials : found;
            found = result ? found : (struct cv_s3_credentials){0};
            return result;
        }
    }
    return 0;
}

/* ---- the shared file ------------------------------------------------------------------------- */

static char *trim(char *text)
{
    text += strspn(text, " \t");
    for (size_t end = strlen(text); end > 0 && isspace((unsigned char)text[end - 1]); end--) {
        text[end - 1] = '\0';
    }
    return text;
}

static int take_line(struct cv_s3_credentials *credentials, char *line, struct cv_error *error)
{
    char *equals = strchr(line, '=');
    if (!equals || line[0] == '#' || line[0] == ';') {
        return 0;
    }
    *equals = '\0';
    const char *name = trim(line);
    const char *value = trim(equals + 1);
    char **target = strcmp(name, "aws_access_key_id") == 0       ? &credentials->access_key
                    : strcmp(name, "aws_secret_access_key") == 0 ? &credentials->secret_key
                    : strcmp(name, "aws_session_token") == 0     ? &credentials->session_token
                                                                 : NULL;
    return target && !*target ? copy_text(value, target, error) : 0;
}

/* Leaves `credentials` empty when the file or the profile is not there. */
static int read_shared_file(const char *path, const char *profile,
                            struct cv_s3_credentials *credentials, struct cv_error *error)
{
    cv_auto_file FILE *file = fopen(path, "re");
    cv_auto_free char *line = NULL;
    size_t capacity = 0;
    bool is_wanted = false;
    int result = 0;
    while (file && result == 0 && getline(&line, &capacity, file) > 0) {
        char *text = trim(line);
        size_t length = strlen(text);
        if (text[0] == '[' && text[length - 1] == ']') {
            text[length - 1] = '\0';
            is_wanted = strcmp(trim(text + 1), profile) == 0;
        } else if (is_wanted) {
            result = take_line(credentials, text, error);
        }
    }
    if (result == 0 && (!credentials->access_key || !credentials->secret_key)) {
        cv_s3_credentials_deinit(credentials);
    }
    return result;
}

static int name_shared_file(struct cv_s3_identity *identity, struct cv_error *error)
{
    const char *file = cv_env("AWS_SHARED_CREDENTIALS_FILE", NULL);
    CV_TRY(copy_text(cv_env("AWS_PROFILE", "default"), &identity->profile, error));
    return file ? copy_text(file, &identity->shared_file, error)
                : cv_format(&identity->shared_file, error, "%s/.aws/credentials",
                            cv_env("HOME", ""));
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int choose(struct cv_s3_identity *identity, const struct cv_s3_config *config,
                  struct cv_error *error)
{
    CV_TRY(read_environment(&identity->current, &identity->is_of_files, error));
    if (identity->current.access_key) {
        return 0;
    }
    CV_TRY(cv_s3_token_source_init(&identity->source, config, true, error));
    if (identity->source.kind == CV_S3_TOKEN_NONE) {
        CV_TRY(name_shared_file(identity, error));
        CV_TRY(
            read_shared_file(identity->shared_file, identity->profile, &identity->current, error));
        if (identity->current.access_key) {
            return 0;
        }
        free(cv_take(identity->shared_file));
        CV_TRY(cv_s3_token_source_init(&identity->source, config, false, error));
    }
    if (identity->source.kind == CV_S3_TOKEN_NONE) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "no credentials for the object store: set S3_ACCESS_KEY_ID and "
                       "S3_SECRET_ACCESS_KEY");
    }
    return 0;
}

int cv_s3_identity_open(const struct cv_s3_config *config, struct cv_s3_identity **ret_identity,
                        struct cv_error *error)
{
    struct cv_s3_identity *identity = calloc(1, sizeof(*identity));
    CV_TRY_MEMORY(identity, error, "a store");
    (void)pthread_mutex_init(&identity->lock, NULL);
    int result = choose(identity, config, error);
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
        cv_s3_token_source_deinit(&identity->source);
        free(identity->shared_file);
        free(identity->profile);
        (void)pthread_mutex_destroy(&identity->lock);
        free(identity);
    }
}

/* ---- in use ---------------------------------------------------------------------------------- */

static int copy(const struct cv_s3_credentials *from, struct cv_s3_credentials *to,
                struct cv_error *error)
{
    CV_TRY(copy_text(from->access_key, &to->access_key, error));
    CV_TRY(copy_text(from->secret_key, &to->secret_key, error));
    CV_TRY(copy_text(from->session_token, &to->session_token, error));
    to->expires_ms = from->expires_ms;
    return 0;
}

static int ask(const struct cv_s3_identity *identity, struct cv_s3_credentials *credentials,
               struct cv_error *error)
{
    if (identity->source.kind != CV_S3_TOKEN_NONE) {
        return cv_s3_token_fetch(&identity->source, credentials, error);
    }
    bool is_of_files;
    CV_TRY(identity->is_of_files
               ? read_environment(credentials, &is_of_files, error)
               : read_shared_file(identity->shared_file, identity->profile, credentials, error));
    return credentials->access_key
               ? 0
               : cv_fail(error, CV_ERROR_AUTHENTICATION, "there are no credentials any more in %s",
                         identity->is_of_files ? "the files that S3_ACCESS_KEY_ID_FILE and "
                                                 "S3_SECRET_ACCESS_KEY_FILE name"
                                               : identity->shared_file);
}

static bool is_due(const struct cv_s3_identity *identity)
{
    const struct cv_s3_credentials *current = &identity->current;
    return !current->access_key || identity->is_expired ||
           (current->expires_ms > 0 && current->expires_ms - cv_wall_ms() < RENEW_AHEAD_MS);
}

/* Old ones are good until they run out, whoever does not answer meanwhile. */
static int renew(struct cv_s3_identity *identity, struct cv_error *error)
{
    const struct cv_s3_credentials *current = &identity->current;
    bool is_usable = current->access_key && !identity->is_expired &&
                     (current->expires_ms == 0 || current->expires_ms > cv_wall_ms());
    if (is_usable && cv_monotonic_ms() < identity->ask_not_before) {
        return 0;
    }
    cv_auto(cv_s3_credentials_deinit) struct cv_s3_credentials fresh = {0};
    int result = ask(identity, &fresh, error);
    if (result && is_usable) {
        cv_log(CV_LOG_DEBUG, "credentials are not renewed yet, ignoring: %s", error->message);
        identity->ask_not_before = cv_monotonic_ms() + ASK_AGAIN_MS;
        return 0;
    }
    if (result == 0) {
        struct cv_s3_credentials old = identity->current;
        identity->current = fresh;
        fresh = old;
        identity->is_expired = false;
        identity->ask_not_before = cv_monotonic_ms() + ASK_AGAIN_MS;
    }
    return result;
}

int cv_s3_identity_get(struct cv_s3_identity *identity, struct cv_s3_credentials *ret_credentials,
                       struct cv_error *error)
{
    cv_auto(cv_s3_credentials_deinit) struct cv_s3_credentials credentials = {0};
    pthread_mutex_lock(&identity->lock);
    int result = is_due(identity) ? renew(identity, error) : 0;
    result = result ? result : copy(&identity->current, &credentials, error);
    pthread_mutex_unlock(&identity->lock);
    if (result == 0) {
        *ret_credentials = credentials;
        credentials = (struct cv_s3_credentials){0};
    }
    return result;
}

bool cv_s3_identity_expire(struct cv_s3_identity *identity)
{
    pthread_mutex_lock(&identity->lock);
    bool can_renew =
        identity->source.kind != CV_S3_TOKEN_NONE || identity->shared_file || identity->is_of_files;
    identity->is_expired = can_renew;
    pthread_mutex_unlock(&identity->lock);
    return can_renew;
}
