#include "common/base/base.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#define SYSTEM_FILE "/etc/cortana/cortana.conf"
#define NAMES_THE_FILE "CORTANA_CONFIG"

enum {
    VALUE_MAX = 64 * 1024, /* bytes of a line of the file, or of a secret */
    NAME_MAX_BYTES = 128,
    SETTINGS_MAX = 128, /* lines in one file; there are fewer names */
};

/* Every name that a file may set (docs/environment.md). A final '*' stands for any ending. Secrets
 * may also be in files of their own, and are never shown. */
static const struct {
    const char *name;
    bool is_secret;
} known[] = {
    {"DATABASE_URL", true},
    {"PGPASSWORD", true},
    {"PG*", false},
    {"STORE_URL", false},
    {"S3_BUCKET", false},
    {"S3_ENDPOINT", false},
    {"S3_PUBLIC_ENDPOINT", false},
    {"S3_REGION", false},
    {"S3_ACCESS_KEY_ID", true},
    {"S3_SECRET_ACCESS_KEY", true},
    {"S3_ADDRESSING", false},
    {"S3_CA_FILE", false},
    {"S3_STALL_TIMEOUT_S", false},
    {"S3_ATTEMPTS", false},
    {"S3_ETAG_MD5", false},
    {"AWS_ACCESS_KEY_ID", true},
    {"AWS_SECRET_ACCESS_KEY", true},
    {"AWS_SESSION_TOKEN", true},
    {"AWS_CONTAINER_AUTHORIZATION_TOKEN", true},
    {"AWS_*", false},
    {"LOG_LEVEL", false},
    {"CORTANA_PLATFORM", false},
    {"CORTANA_SCRATCH", false},
    {"CORTANA_LEASE_MS", false},
    {"CORTANA_HEARTBEAT_MS", false},
    {"CORTANA_GRACE_MS", false},
    {"CORTANA_RENDITIONS", false},
    {"CORTANA_SEGMENTS", false},
    {"CORTANA_SETTLE_MS", false},
    {"CORTANA_OWNER", false},
    {"CORTANA_CLIP_DAYS", false},
    {"CORTANA_FRAME_DAYS", false},
    {"CORTANA_LISTEN", false},
    {"CORTANA_API_LISTEN", false},
    {"CORTANA_JWT_SECRET", true},
    {"CORTANA_JWKS_FILE", false},
    {"CORTANA_SERVER", false},
    {"CORTANA_JWKS_URL", false},
    {"CORTANA_JWKS_ALLOW", false},
    {"CORTANA_API_RATES", false},
    {"CORTANA_MEDIA", false},
    {"CORTANA_TRUSTED_PROXIES", false},
    {"CORTANA_JWT_ISSUER", false},
    {"CORTANA_JWT_AUDIENCE", false},
    {"CORTANA_GRANT_SECRET_FILE", false},
    {"CORTANA_DEFAULT_ROLE", false},
    {"CORTANA_HIDE_PAYLOADS", false},
    {"CORTANA_METRICS_FLEET_MS", false},
    {"CORTANA_LOG_DAYS", false},
    {"CORTANA_OUTPUT_DAYS", false},
    {"CORTANA_WORKER_LABELS", false},
    {"CORTANA_SCRATCH_BYTES", false},
    {"CORTANA_STORE_PROBE_MS", false},
    {"CORTANA_WEBHOOK_ALLOW", false},
    {"CORTANA_WEBHOOK_TIMEOUT_MS", false},
    {"CORTANA_CA_FILE", false},
    {"CORTANA_SANDBOX", false},
    {"CORTANA_READ_PATHS", false},
    {"CORTANA_LANGUAGES", false},
    {"EMBED_URL", false},
    {"EMBED_API_KEY", true},
    {"TRANSCRIBE_URL", false},
    {"TRANSCRIBE_API_KEY", true},
    {"SMTP_URL", true},
    {"TESSDATA_PREFIX", false},
    {"HTTPS_PROXY", false},
    {"NO_PROXY", false},
    {"COMMAND_*", false},
};

static bool fits(const char *pattern, const char *name)
{
    size_t length = strlen(pattern);
    return pattern[length - 1] == '*' ? strncmp(pattern, name, length - 1) == 0
                                      : strcmp(pattern, name) == 0;
}

/* The row of `known` for a name, or for the NAME of NAME_FILE if that is a secret; -1 if there is
 * none. */
static int find_known(const char *name, bool *ret_is_file)
{
    static const char suffix[] = "_FILE";
    size_t length = strlen(name);
    size_t stem = length > sizeof(suffix) - 1 ? length - (sizeof(suffix) - 1) : 0;
    *ret_is_file = false;
    for (size_t i = 0; i < CV_COUNT(known); i++) {
        if (known[i].is_secret && strlen(known[i].name) == stem &&
            strncmp(known[i].name, name, stem) == 0 && strcmp(name + stem, suffix) == 0) {
            *ret_is_file = true;
            return (int)i;
        }
    }
    for (size_t i = 0; i < CV_COUNT(known); i++) {
        if (fits(known[i].name, name)) {
            return (int)i;
        }
    }
    return -1;
}

bool cv_setting_is_secret(const char *name)
{
    bool is_file;
    int row = find_known(name, &is_file);
    return row >= 0 && known[row].is_secret && !is_file;
}

/* ---- where values come from -------------------------------------------------------------------- */

/* Written before the process has threads. */
static struct {
    char *name, *source;
} taken[SETTINGS_MAX];
static size_t taken_count;

/* Puts the value into the environment, so that every library finds it, and records its source
 * (taken over). */
static int set_variable(const char *name, const char *value, const char *source,
                        struct cv_error *error)
{
    cv_auto_free char *name_copy = strdup(name);
    cv_auto_free char *source_copy = strdup(source);
    if (taken_count == SETTINGS_MAX) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "more than %d settings", SETTINGS_MAX);
    }
    CV_TRY_MEMORY(name_copy && source_copy && setenv(name, value, 1) == 0, error, "settings");
    taken[taken_count].name = cv_take(name_copy);
    taken[taken_count++].source = cv_take(source_copy);
    return 0;
}

const char *cv_setting_source(const char *name)
{
    for (size_t i = 0; i < taken_count; i++) {
        if (strcmp(taken[i].name, name) == 0) {
            return taken[i].source;
        }
    }
    return getenv(name) ? "environment" : NULL;
}

/* A secret is the first line of its file. CV_ERROR_CONFIGURATION when it cannot be read. */
static int read_secret(const char *path, const char *whence, char **ret_value,
                       struct cv_error *error)
{
    cv_auto_file FILE *file = fopen(path, "re");
    cv_auto_free char *value = calloc(1, VALUE_MAX + 1);
    if (!file || !value) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "cannot read %s, which %s names: %s", path,
                       whence, strerror(errno));
    }
    size_t length = fread(value, 1, VALUE_MAX + 1, file);
    value[strnlen(value, VALUE_MAX)] = '\0';
    value[strcspn(value, "\r\n")] = '\0';
    if (ferror(file) || length > VALUE_MAX || value[0] == '\0') {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the first line of %s, which %s names, must be a secret", path, whence);
    }
    *ret_value = cv_take(value);
    return 0;
}

/* Records NAME_FILE, from which the secret can be read again. */
static const char *name_file(const char *name, char variable[NAME_MAX_BYTES])
{
    (void)snprintf(variable, NAME_MAX_BYTES, "%s_FILE", name);
    return variable;
}

static int read_secret_file(const char *name, const char *path, const char *whence,
                            struct cv_error *error)
{
    char variable[NAME_MAX_BYTES];
    cv_auto_free char *value = NULL;
    cv_auto_free char *source = NULL;
    int result = read_secret(path, whence, &value, error);
    result = result ? result : cv_format(&source, error, "%s (%s)", path, whence);
    result = result ? result : set_variable(name, value, source, error);
    if (result == 0 && setenv(name_file(name, variable), path, 1) != 0) {
        result = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for settings");
    }
    if (value) {
        explicit_bzero(value, strlen(value));
    }
    return result;
}

int cv_setting_read(const char *name, char **ret_value, struct cv_error *error)
{
    char variable[NAME_MAX_BYTES];
    const char *value = cv_env(name, NULL);
    const char *path = value ? cv_env(name_file(name, variable), NULL) : NULL;
    struct cv_error unread;
    if (path && read_secret(path, variable, ret_value, &unread) == 0) {
        return 0;
    }
    /* The file is being replaced, or this process may not read it: use the value read last. */
    return value ? cv_format(ret_value, error, "%s", value) : 0;
}

bool cv_setting_has_file(const char *name)
{
    char variable[NAME_MAX_BYTES];
    return cv_env(name, NULL) && cv_env(name_file(name, variable), NULL);
}

/* Reads secrets from NAME_FILE in the environment, then from credentials of the service manager. */
static int read_secrets(struct cv_error *error)
{
    const char *credentials = cv_env("CREDENTIALS_DIRECTORY", NULL);
    for (size_t i = 0; i < CV_COUNT(known); i++) {
        char variable[NAME_MAX_BYTES];
        char path[PATH_MAX];
        if (!known[i].is_secret) {
            continue;
        }
        if (getenv(known[i].name)) {
            (void)unsetenv(name_file(known[i].name, variable)); /* the value has precedence */
            continue;
        }
        if (cv_env(name_file(known[i].name, variable), NULL)) {
            CV_TRY(read_secret_file(known[i].name, cv_env(variable, NULL), variable, error));
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", credentials ? credentials : "", known[i].name);
        if (credentials && access(path, F_OK) == 0) {
            CV_TRY(read_secret_file(known[i].name, path, "CREDENTIALS_DIRECTORY", error));
        }
    }
    return 0;
}

/* ---- the file ---------------------------------------------------------------------------------- */

static char *trim(char *text)
{
    while (isspace((unsigned char)*text)) {
        text++;
    }
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) {
        *--end = '\0';
    }
    return text;
}

/* A value may be in quotes, as systemd and shells write it. */
static char *unquote(char *value)
{
    size_t length = strlen(value);
    bool is_quoted =
        length >= 2 && (value[0] == '"' || value[0] == '\'') && value[length - 1] == value[0];
    if (is_quoted) {
        value[length - 1] = '\0';
    }
    return value + (is_quoted ? 1 : 0);
}

/* Whether a secret file named by the machine's settings file is meant for another user. That file
 * names the secrets of the command line, which root runs. A service has received its own
 * credentials. */
static bool is_of_others(const char *path)
{
    return cv_env("CREDENTIALS_DIRECTORY", NULL) && access(path, R_OK) != 0 && errno == EACCES;
}

static int read_line(char *line, const char *place, struct cv_error *error)
{
    char *name = trim(line);
    char *equals = strchr(name, '=');
    bool is_file = false;
    if (name[0] == '\0' || name[0] == '#') {
        return 0;
    }
    if (!equals) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s is not of the form NAME=VALUE", place);
    }
    *equals = '\0';
    name = trim(name);
    char *value = unquote(trim(equals + 1));
    int row = strlen(name) < NAME_MAX_BYTES ? find_known(name, &is_file) : -1;
    if (row < 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "%s: there is no setting %.*s; cortana config --all lists them", place,
                       NAME_MAX_BYTES, name);
    }
    const char *meant = is_file ? known[row].name : name;
    const char *source = cv_setting_source(meant);
    if (source && strncmp(source, place, strcspn(place, ",")) == 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s: %s is set already: %s", place, meant,
                       source);
    }
    if (source || (is_file && is_of_others(value))) {
        return 0; /* the environment takes precedence */
    }
    return is_file ? read_secret_file(meant, value, place, error)
                   : set_variable(name, value, place, error);
}

static int read_lines(const char *path, FILE *file, struct cv_error *error)
{
    cv_auto_free char *line = NULL;
    size_t size = 0;
    int number = 0;
    int result = 0;
    for (ssize_t length; result == 0 && (length = getline(&line, &size, file)) >= 0;) {
        cv_auto_free char *place = NULL;
        result = cv_format(&place, error, "%s, line %d", path, ++number);
        if (result == 0 && (length > VALUE_MAX || strlen(line) != (size_t)length)) {
            result = cv_fail(error, CV_ERROR_CONFIGURATION, "%s is too long, or no text", place);
        }
        result = result ? result : read_line(line, place, error);
    }
    if (line) {
        explicit_bzero(line, size);
    }
    return result == 0 && ferror(file) ? cv_fail_errno(error, errno, "read %s", path) : result;
}

const char *cv_settings_file(void)
{
    const char *named = getenv(NAMES_THE_FILE);
    return named ? named : SYSTEM_FILE;
}

int cv_settings_load(struct cv_error *error)
{
    const char *named = getenv(NAMES_THE_FILE);
    const char *path = cv_settings_file();
    if (path[0] == '\0') {
        return 0;
    }
    int result = read_secrets(error);
    cv_auto_file FILE *file = fopen(path, "re");
    if (!file && (named || errno != ENOENT)) {
        result = result ? result
                        : cv_fail(error, CV_ERROR_CONFIGURATION, "cannot read %s: %s", path,
                                  strerror(errno));
    }
    result = result || !file ? result : read_lines(path, file, error);
    /* Programs that this one starts inherit these settings, and do not read the file. */
    if (result == 0 && setenv(NAMES_THE_FILE, "", 1) != 0) {
        result = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for settings");
    }
    return result;
}

/* ---- all settings ------------------------------------------------------------------------------ */

void cv_settings_each(void (*tell)(void *opaque, const char *name), void *opaque)
{
    for (size_t i = 0; i < CV_COUNT(known); i++) {
        size_t length = strlen(known[i].name);
        if (known[i].name[length - 1] != '*') {
            tell(opaque, known[i].name);
            continue;
        }
        for (char **entry = environ; *entry; entry++) {
            char name[NAME_MAX_BYTES];
            bool is_file;
            (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
            if (find_known(name, &is_file) == (int)i) {
                tell(opaque, name);
            }
        }
    }
}
