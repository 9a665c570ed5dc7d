#include "cli/local/tokens.h"

#include "cli/local/file.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/stat.h>

enum {
    SECRET_BYTES = 32, /* as long as the hash: RFC 7518, 3.2 */
    SECRET_TEXT_MAX = 1024,
    MS_A_SECOND = 1000,
    SECONDS_AN_HOUR = 3600,
};
static const char secret_name[] = "gateway.secret";

/* ---- files ------------------------------------------------------------------------------------- */

/* Reads the first line of a file; 1 if the file does not exist. */
static int read_line(const char *path, char *text, size_t size, struct cv_error *error)
{
    cv_auto_file FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT) {
        return 1;
    }
    text[0] = '\0';
    if (!file || (!fgets(text, (int)size, file) && ferror(file))) {
        return cv_fail_errno(error, errno, "read %s", path);
    }
    text[strcspn(text, "\r\n")] = '\0';
    return 0;
}

int cli_tokens_secret_path(const char *directory, char **ret_path, struct cv_error *error)
{
    return cv_format(ret_path, error, "%s/%s", directory, secret_name);
}

int cli_tokens_prepare(const char *directory, char ret_owner[CLI_OWNER_SIZE],
                       struct cv_error *error)
{
    char path[PATH_MAX + 16];
    char text[2 * SECRET_BYTES + 1];
    char owner[CLI_OWNER_SIZE + 1];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, secret_name);
    if (access(path, F_OK)) {
        cv_random_hex(SECRET_BYTES, text);
        CV_TRY(cli_replace_file(path, text, error));
    }
    (void)snprintf(path, sizeof(path), "%s/owner", directory);
    int result = read_line(path, owner, sizeof(owner), error);
    if (result == 1) {
        result = read_line("/proc/sys/kernel/random/uuid", owner, sizeof(owner), error);
        if (result == 1) {
            return cv_fail(error, CV_ERROR_CONFIGURATION, "/proc is not mounted");
        }
        result = result ? result : cli_replace_file(path, owner, error);
    }
    if (result == 0 && !cv_is_uuid(owner)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "%s must contain a UUID, the owner of the videos that are imported", path);
    }
    if (result == 0) {
        (void)snprintf(ret_owner, CLI_OWNER_SIZE, "%s", owner);
    }
    return result;
}

int cli_tokens_keep_owner(const char *directory, const char *owner, struct cv_error *error)
{
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof(path), "%s/owner", directory);
    return cli_replace_file(path, owner, error);
}

int cli_tokens_secret(const char *directory, bool is_local, char **ret_secret,
                      struct cv_error *error)
{
    char path[PATH_MAX + 16];
    char text[SECRET_TEXT_MAX];
    const char *secret = is_local ? NULL : cv_env("CORTANA_JWT_SECRET", NULL);
    const char *file = is_local ? NULL : cv_env("CORTANA_JWT_SECRET_FILE", NULL);
    if (secret) {
        return cv_format(ret_secret, error, "%s", secret);
    }
    (void)snprintf(path, sizeof(path), "%s%s%s", file ? file : directory, file ? "" : "/",
                   file ? "" : secret_name);
    int result = read_line(path, text, sizeof(text), error);
    if (result == 1 || (result == 0 && text[0] == '\0')) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       file ? "%s holds no secret"
                            : "%s holds no secret: start with cortana run, or set "
                              "CORTANA_JWT_SECRET as for the gateway",
                       path);
    }
    return result ? result : cv_format(ret_secret, error, "%s", text);
}

/* ---- tokens ------------------------------------------------------------------------------------ */

static json_t *make_claims(const struct cli_token *token)
{
    bool is_service = strcmp(token->role, "service") == 0;
    int64_t now = cv_wall_ms() / MS_A_SECOND;
    cv_auto(json_decref) json_t *teams = json_array();
    for (size_t i = 0; teams && token->teams && token->teams[i]; i++) {
        if (json_array_append_new(teams, json_string(token->teams[i])) != 0) {
            return NULL;
        }
    }
    /* A member whose value is NULL is left out. */
    return json_pack("{s:s, s:s, s:I, s:I, s:s*, s:s*, s:{s:O, s:s*}}", "role",
                     is_service ? "service_role" : "authenticated", "aud",
                     token->audience ? token->audience : "authenticated", "iat", (json_int_t)now,
                     "exp", (json_int_t)(now + token->hours * SECONDS_AN_HOUR), "sub", token->user,
                     "iss", token->issuer, "app_metadata", "team_ids", teams, "cortana_role",
                     is_service ? NULL : token->role);
}

int cli_tokens_make(const struct cli_token *token, const char *secret, char **ret_text,
                    struct cv_error *error)
{
    static const char header[] = "{\"alg\":\"HS256\",\"typ\":\"JWT\"}";
    cv_auto(json_decref) json_t *claims = make_claims(token);
    cv_auto_free char *text = claims ? json_dumps(claims, JSON_COMPACT) : NULL;
    cv_auto(cv_buffer_deinit) struct cv_buffer buffer = CV_BUFFER_INIT;
    unsigned char signature[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    CV_TRY_MEMORY(text, error, "a token");
    cv_base64url(&buffer, header, sizeof(header) - 1);
    cv_buffer_text(&buffer, ".");
    cv_base64url(&buffer, text, strlen(text));
    if (buffer.failed ||
        !HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)buffer.data,
              buffer.length, signature, &length)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot sign a token");
    }
    cv_buffer_text(&buffer, ".");
    cv_base64url(&buffer, signature, length);
    return cv_buffer_detach(&buffer, ret_text, error);
}
