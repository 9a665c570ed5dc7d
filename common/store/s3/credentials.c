#include "common/store/s3/credentials.h"

#include "common/store/s3/answer.h"
#include "common/store/s3/sign.h"

#include <ctype.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* The service for temporary credentials according to the environment; texts are owned. */
enum cv_s3_token_kind {
    CV_S3_TOKEN_NONE,
    CV_S3_TOKEN_WEB_IDENTITY, /* STS, with the token in a file */
    CV_S3_TOKEN_CONTAINER,    /* the service beside a container (ECS, EKS pod identity) */
    CV_S3_TOKEN_INSTANCE,     /* the instance's metadata, version 2 */
};

struct cv_s3_token_source {
    enum cv_s3_token_kind kind;
    char *url;        /* URL of STS, the container's service or the metadata service */
    char *token_file; /* file with the web identity, or with the container's authorization */
    char *token;      /* the container's authorization itself */
    char *role;       /* ARN of the role */
    char *session;    /* name of its session */
    char *ca_file;    /* NULL: the system's certificates */
};

/* ---- tokens of the machine ----------------------------------------------------------------------- */

enum {
    ANSWER_MAX = 256 << 10,
    FILE_MAX = 64 << 10,       /* bytes; a token has a few KiB */
    CONNECT_TIMEOUT_MS = 2000, /* outside a cloud, nothing listens at the metadata address */
    TIMEOUT_MS = 10 * 1000,
};

CV_DEFINE_CLEANUP(CURL *, curl_easy_cleanup)
CV_DEFINE_CLEANUP(struct curl_slist *, curl_slist_free_all)

/* ---- one question ---------------------------------------------------------------------------- */

struct question {
    const char *method;
    const char *url;
    const char *header; /* NULL: none */
    const char *ca_file;
    bool is_local; /* no proxy must be used */
};

static size_t receive_body(char *data, size_t size, size_t count, void *opaque)
{
    struct cv_buffer *buffer = opaque;
    if (buffer->length + size * count > ANSWER_MAX) {
        return 0;
    }
    cv_buffer_append(buffer, data, size * count);
    return buffer->failed ? 0 : size * count;
}

static int ask(const struct question *question, struct cv_buffer *answer, struct cv_error *error)
{
    cv_auto(curl_easy_cleanup) CURL *easy = curl_easy_init();
    cv_auto(curl_slist_free_all) struct curl_slist *lines =
        curl_slist_append(NULL, question->header ? question->header : "Accept:");
    char detail[CURL_ERROR_SIZE] = "";
    cv_buffer_clear(answer);
    bool good = easy && lines;
#define SET(option, value) good = good && curl_easy_setopt(easy, option, value) == CURLE_OK
    SET(CURLOPT_URL, question->url);
    SET(CURLOPT_CUSTOMREQUEST, question->method);
    SET(CURLOPT_HTTPHEADER, lines);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_ERRORBUFFER, detail);
    SET(CURLOPT_WRITEFUNCTION, receive_body);
    SET(CURLOPT_WRITEDATA, answer);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    SET(CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
    if (question->is_local) {
        SET(CURLOPT_NOPROXY, "*");
    }
    if (question->ca_file) {
        SET(CURLOPT_CAINFO, question->ca_file);
    }
#undef SET
    if (!good) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to ask for credentials");
    }
    CURLcode code = curl_easy_perform(easy);
    long status = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) {
        return cv_fail(error, CV_ERROR_CONNECTION, "ask for credentials: %s",
                       detail[0] ? detail : curl_easy_strerror(code));
    }
    if (status != 200) {
        return cv_fail(error, status / 100 == 4 ? CV_ERROR_AUTHENTICATION : CV_ERROR_SERVER,
                       "ask for credentials: the answer is %ld", status);
    }
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Parses "2026-01-31T12:00:00Z". */
static int64_t parse_expiry(const char *text)
{
    struct tm parts = {0};
    return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) ? (int64_t)timegm(&parts) * 1000 : 0;
}

static int replace_text(char **target, const char *text, struct cv_error *error)
{
    free(*target);
    *target = NULL;
    return text && text[0] ? cv_format(target, error, "%s", text) : 0;
}

static int check_whole(const struct cv_s3_credentials *credentials, struct cv_error *error)
{
    return credentials->access_key && credentials->secret_key
               ? 0
               : cv_fail(error, CV_ERROR_AUTHENTICATION,
                         "the answer to the question for credentials has none");
}

static int read_json(const struct cv_buffer *answer, struct cv_s3_credentials *credentials,
                     struct cv_error *error)
{
    cv_auto(json_decref) json_t *object =
        json_loadb(answer->data ? answer->data : "", answer->length, 0, NULL);
    const char *const names[] = {"AccessKeyId", "SecretAccessKey", "Token"};
    char **const targets[] = {&credentials->access_key, &credentials->secret_key,
                              &credentials->session_token};
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        CV_TRY(
            replace_text(targets[i], json_string_value(json_object_get(object, names[i])), error));
    }
    credentials->expires_ms =
        parse_expiry(json_string_value(json_object_get(object, "Expiration")));
    return check_whole(credentials, error);
}

static int read_xml_element(void *opaque, const char *path, const char *text,
                            struct cv_error *error)
{
    struct cv_s3_credentials *credentials = opaque;
    static const char parent[] =
        "AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/Credentials/";
    if (strncmp(path, parent, sizeof(parent) - 1) != 0) {
        return 0;
    }
    const char *name = path + sizeof(parent) - 1;
    if (strcmp(name, "AccessKeyId") == 0) {
        return replace_text(&credentials->access_key, text, error);
    }
    if (strcmp(name, "SecretAccessKey") == 0) {
        return replace_text(&credentials->secret_key, text, error);
    }
    if (strcmp(name, "SessionToken") == 0) {
        return replace_text(&credentials->session_token, text, error);
    }
    if (strcmp(name, "Expiration") == 0) {
        credentials->expires_ms = parse_expiry(text);
    }
    return 0;
}

/* Reads a token each time again, because its file is renewed. */
static int read_token(const char *path, char **ret_token, struct cv_error *error)
{
    cv_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[FILE_MAX];
    ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (length < 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "read the token in %s: %s", path,
                       strerror(errno));
    }
    text[length] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    return cv_format(ret_token, error, "%s", text);
}

/* ---- requests for credentials ---------------------------------------------------------------- */

static int fetch_web_identity(const struct cv_s3_token_source *source,
                              struct cv_s3_credentials *credentials, struct cv_error *error)
{
    cv_auto_free char *token = NULL;
    cv_auto_free char *query = NULL;
    cv_auto_free char *url = NULL;
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs pairs = {0};
    cv_auto(cv_buffer_deinit) struct cv_buffer answer = CV_BUFFER_INIT;
    CV_TRY(read_token(source->token_file, &token, error));
    cv_s3_pairs_add(&pairs, "Action", "AssumeRoleWithWebIdentity");
    cv_s3_pairs_add(&pairs, "Version", "2011-06-15");
    cv_s3_pairs_add(&pairs, "RoleArn", source->role);
    cv_s3_pairs_add(&pairs, "RoleSessionName", source->session);
    cv_s3_pairs_add(&pairs, "WebIdentityToken", token);
    CV_TRY(cv_s3_query_text(&pairs, &query, error));
    CV_TRY(cv_format(&url, error, "%s/?%s", source->url, query));
    const struct question question = {.method = "POST", .url = url, .ca_file = source->ca_file};
    CV_TRY(ask(&question, &answer, error));
    CV_TRY(cv_s3_xml_read(answer.data, answer.length, read_xml_element, credentials, error));
    return check_whole(credentials, error);
}

static int fetch_container(const struct cv_s3_token_source *source,
                           struct cv_s3_credentials *credentials, struct cv_error *error)
{
    cv_auto_free char *token = NULL;
    cv_auto_free char *header = NULL;
    cv_auto(cv_buffer_deinit) struct cv_buffer answer = CV_BUFFER_INIT;
    if (source->token_file) {
        CV_TRY(read_token(source->token_file, &token, error));
    } else if (source->token) {
        CV_TRY(cv_format(&token, error, "%s", source->token));
    }
    if (token) {
        CV_TRY(cv_format(&header, error, "Authorization: %s", token));
    }
    const struct question question = {
        .method = "GET", .url = source->url, .header = header, .is_local = true};
    CV_TRY(ask(&question, &answer, error));
    return read_json(&answer, credentials, error);
}

static int fetch_instance(const struct cv_s3_token_source *source,
                          struct cv_s3_credentials *credentials, struct cv_error *error)
{
    static const char roles[] = "latest/meta-data/iam/security-credentials/";
    cv_auto_free char *token_url = NULL;
    cv_auto_free char *list_url = NULL;
    cv_auto_free char *role_url = NULL;
    cv_auto_free char *header = NULL;
    cv_auto(cv_buffer_deinit) struct cv_buffer answer = CV_BUFFER_INIT;
    CV_TRY(cv_format(&token_url, error, "%s/latest/api/token", source->url));
    CV_TRY(cv_format(&list_url, error, "%s/%s", source->url, roles));
    const struct question first = {.method = "PUT",
                                   .url = token_url,
                                   .header = "X-aws-ec2-metadata-token-ttl-seconds: 300",
                                   .is_local = true};
    CV_TRY(ask(&first, &answer, error));
    CV_TRY(
        cv_format(&header, error, "X-aws-ec2-metadata-token: %s", answer.data ? answer.data : ""));
    const struct question second = {
        .method = "GET", .url = list_url, .header = header, .is_local = true};
    CV_TRY(ask(&second, &answer, error));
    const char *role = answer.data ? answer.data : "";
    CV_TRY(cv_format(&role_url, error, "%s%.*s", list_url, (int)strcspn(role, "\r\n"), role));
    const struct question third = {
        .method = "GET", .url = role_url, .header = header, .is_local = true};
    CV_TRY(ask(&third, &answer, error));
    return read_json(&answer, credentials, error);
}

/* Requests credentials; each request takes at most a few seconds. */
static int cv_s3_token_fetch(const struct cv_s3_token_source *source,
                             struct cv_s3_credentials *ret_credentials, struct cv_error *error)
{
    cv_auto(cv_s3_credentials_deinit) struct cv_s3_credentials credentials = {0};
    int result = -1;
    switch (source->kind) {
    case CV_S3_TOKEN_WEB_IDENTITY:
        result = fetch_web_identity(source, &credentials, error);
        break;
    case CV_S3_TOKEN_CONTAINER:
        result = fetch_container(source, &credentials, error);
        break;
    case CV_S3_TOKEN_INSTANCE:
        result = fetch_instance(source, &credentials, error);
        break;
    case CV_S3_TOKEN_NONE:
        result = cv_fail(error, CV_ERROR_CONFIGURATION, "nobody hands out credentials here");
        break;
    }
    if (result == 0) {
        *ret_credentials = credentials;
        credentials = (struct cv_s3_credentials){0};
    }
    return result;
}

/* ---- from the environment -------------------------------------------------------------------- */

static void cv_s3_token_source_deinit(struct cv_s3_token_source *source)
{
    char *const texts[] = {source->url,  source->token_file, source->token,
                           source->role, source->session,    source->ca_file};
    for (size_t i = 0; i < CV_COUNT(texts); i++) {
        free(texts[i]);
    }
    *source = (struct cv_s3_token_source){0};
}

static int init_web_identity(struct cv_s3_token_source *source, const struct cv_s3_config *config,
                             struct cv_error *error)
{
    const char *file = cv_env("AWS_WEB_IDENTITY_TOKEN_FILE", NULL);
    const char *role = cv_env("AWS_ROLE_ARN", NULL);
    if (!file || !role) {
        return 0;
    }
    const char *endpoint = cv_env("AWS_ENDPOINT_URL_STS", NULL);
    source->kind = CV_S3_TOKEN_WEB_IDENTITY;
    CV_TRY(replace_text(&source->token_file, file, error));
    CV_TRY(replace_text(&source->role, role, error));
    CV_TRY(
        replace_text(&source->session, cv_env("AWS_ROLE_SESSION_NAME", "cortana-vision"), error));
    CV_TRY(replace_text(&source->ca_file, config->ca_file, error));
    return endpoint
               ? replace_text(&source->url, endpoint, error)
               : cv_format(&source->url, error, "https://sts.%s.amazonaws.com%s", config->region,
                           strncmp(config->region, "cn-", 3) == 0 ? ".cn" : "");
}

static int init_container(struct cv_s3_token_source *source, const char *relative, const char *full,
                          struct cv_error *error)
{
    source->kind = CV_S3_TOKEN_CONTAINER;
    CV_TRY(replace_text(&source->token_file, cv_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", NULL),
                        error));
    CV_TRY(replace_text(&source->token, cv_env("AWS_CONTAINER_AUTHORIZATION_TOKEN", NULL), error));
    return cv_format(&source->url, error, "%s%s", relative ? "http://169.254.170.2" : "",
                     relative ? relative : full);
}

/* Reads AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN; AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or
 * …_FULL_URI; AWS_EC2_METADATA_DISABLED. `web_identity` alone, or the two others. */
static int cv_s3_token_source_init(struct cv_s3_token_source *source,
                                   const struct cv_s3_config *config, bool web_identity,
                                   struct cv_error *error)
{
    *source = (struct cv_s3_token_source){0};
    const char *relative = cv_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", NULL);
    const char *full = cv_env("AWS_CONTAINER_CREDENTIALS_FULL_URI", NULL);
    if (web_identity) {
        return init_web_identity(source, config, error);
    }
    if (relative || full) {
        return init_container(source, relative, full, error);
    }
    /* Only AWS has this service; elsewhere the request would only cost time. */
    bool is_aws = strstr(config->host, ".amazonaws.com") != NULL;
    const char *endpoint = cv_env("AWS_EC2_METADATA_SERVICE_ENDPOINT", NULL);
    if ((!is_aws && !endpoint) ||
        strcasecmp(cv_env("AWS_EC2_METADATA_DISABLED", "false"), "true") == 0) {
        return 0;
    }
    source->kind = CV_S3_TOKEN_INSTANCE;
    return replace_text(&source->url, endpoint ? endpoint : "http://169.254.169.254", error);
}

enum {
    RENEW_AHEAD_MS = 5 * 60 * 1000, /* time before the expiry: allows for clock skew and retries */
    ASK_AGAIN_MS = 30 * 1000,       /* pause after a failure while the old ones are valid */
};

struct cv_s3_identity {
    pthread_mutex_t lock; /* held during a request, so that others wait for its answer */
    struct cv_s3_credentials current;
    struct cv_s3_token_source source;
    bool is_of_files;  /* the values of variables are in files, which are read again */
    char *shared_file; /* NULL: not used */
    char *profile;
    int64_t ask_not_before; /* monotonic */
    bool is_expired;        /* according to the server */
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

/* ---- variables ------------------------------------------------------------------------------- */

static int read_environment(struct cv_s3_credentials *credentials, bool *ret_is_of_files,
                            struct cv_error *error)
{
    static const char *const names[][3] = {
        {"S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY", NULL},
        {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"},
    };
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        const char *const *name = names[i];
        cv_auto(cv_s3_credentials_deinit) struct cv_s3_credentials found = {0};
        int result = cv_setting_read(name[0], &found.access_key, error);
        result = result ? result : cv_setting_read(name[1], &found.secret_key, error);
        result =
            result || !name[2] ? result : cv_setting_read(name[2], &found.session_token, error);
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

static int read_line(struct cv_s3_credentials *credentials, char *line, struct cv_error *error)
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
    return target && !*target ? replace_text(target, value, error) : 0;
}

/* Reads the shared file. Leaves `credentials` empty if the file or the profile is missing. */
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
            result = read_line(credentials, text, error);
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
    CV_TRY(replace_text(&identity->profile, cv_env("AWS_PROFILE", "default"), error));
    return file ? replace_text(&identity->shared_file, file, error)
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
    CV_TRY(replace_text(&to->access_key, from->access_key, error));
    CV_TRY(replace_text(&to->secret_key, from->secret_key, error));
    CV_TRY(replace_text(&to->session_token, from->session_token, error));
    to->expires_ms = from->expires_ms;
    return 0;
}

static int ask_for(const struct cv_s3_identity *identity, struct cv_s3_credentials *credentials,
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

/* Renews the credentials. If that fails, the old ones are used until they expire. */
static int renew(struct cv_s3_identity *identity, struct cv_error *error)
{
    const struct cv_s3_credentials *current = &identity->current;
    bool is_usable = current->access_key && !identity->is_expired &&
                     (current->expires_ms == 0 || current->expires_ms > cv_wall_ms());
    if (is_usable && cv_monotonic_ms() < identity->ask_not_before) {
        return 0;
    }
    cv_auto(cv_s3_credentials_deinit) struct cv_s3_credentials fresh = {0};
    int result = ask_for(identity, &fresh, error);
    if (result && is_usable) {
        cv_log(CV_LOG_DEBUG, "cannot renew the credentials yet, ignoring: %s", error->message);
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
    CV_LOCK(&identity->lock);
    CV_TRY(is_due(identity) ? renew(identity, error) : 0);
    CV_TRY(copy(&identity->current, &credentials, error));
    *ret_credentials = credentials;
    credentials = (struct cv_s3_credentials){0};
    return 0;
}

bool cv_s3_identity_expire(struct cv_s3_identity *identity)
{
    CV_LOCK(&identity->lock);
    bool can_renew =
        identity->source.kind != CV_S3_TOKEN_NONE || identity->shared_file || identity->is_of_files;
    identity->is_expired = can_renew;
    return can_renew;
}
