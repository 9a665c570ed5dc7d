#include "common/base/base.h"

#include <ctype.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* A value is secret when its name ends in one of these. Names are compared without case, '-', '_' and
 * '.', so that "password" covers DB_PASSWORD, dbPassword and spring.datasource.password. */
static const char *const secret_endings[] = {
    "password",      "passwords",  "passwd",        "passphrase", "pwd",         "secret",
    "secrets",       "token",      "apikey",        "accesskey",  "accesskeyid", "secretkey",
    "privatekey",    "signingkey", "encryptionkey", "signature",  "credential",  "credentials",
    "authorization", "cookie",     "cookies",       "sessionid",  "sessid",
};
static const char *const secret_names[] = {"auth", "pass", "sig", "bearer"};

/* Names that end in the same way and are not secrets: the fencing token of a job, the position in
 * a list. */
static const char *const open_names[] = {"leasetoken", "continuationtoken",
                                         "nextcontinuationtoken"};

/* The value of such a header ends at the end of the line: it may contain spaces. */
static const char *const header_names[] = {"cookie", "signature"};
static const char *const authorization[] = {"authorization"};

enum { NAME_MAX_LENGTH = 128 };

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool ends_in(const char *name, const char *const *endings, size_t count)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < count; i++) {
        size_t ending = strlen(endings[i]);
        if (length >= ending && strcmp(name + length - ending, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The last letters and digits of a name in lower case. */
static void plain_name(const char *name, size_t length, char plain[NAME_MAX_LENGTH])
{
    size_t used = 0;
    const char *from = length >= NAME_MAX_LENGTH ? name + length - NAME_MAX_LENGTH + 1 : name;
    for (const char *c = from; c < name + length; c++) {
        if (isalnum((unsigned char)*c)) {
            plain[used++] = (char)tolower((unsigned char)*c);
        }
    }
    plain[used] = '\0';
}

static bool is_secret_name(const char *plain)
{
    return (ends_in(plain, secret_endings, CV_COUNT(secret_endings)) ||
            is_among(plain, secret_names, CV_COUNT(secret_names))) &&
           !is_among(plain, open_names, CV_COUNT(open_names));
}

static bool is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void mask(char *from, const char *to)
{
    while (from < to) {
        *from++ = '*';
    }
}

/* The end of a quoted value that begins at `from`: its closing quote. `\` escapes a character, and
 * so does a doubled quote (as in libpq and SQL). If the opening quote was escaped, because it is
 * inside a JSON text, the value ends at an escaped quote. */
static char *end_of_quoted(char *from, char quote, bool is_escaped)
{
    for (char *c = from; *c; c++) {
        if (*c == '\\' && c[1]) {
            if (is_escaped && c[1] == quote) {
                return c;
            }
            c++;
        } else if (*c == quote) {
            if (is_escaped || c[1] != quote || quote != '\'') {
                return c;
            }
            c++;
        }
    }
    return from + strlen(from);
}

/* A header's value may have quoted parts (`username="u"`), in JSON with escaped quotes. */
static char *skip_quoted_part(char *c)
{
    bool is_escaped = c[1] == '\\';
    char *from = c + (is_escaped ? 3 : 2);
    if (c[0] != '=' || from[-1] != '"') {
        return c;
    }
    char *end = end_of_quoted(from, '"', is_escaped);
    return *end == '\\' ? end + 2 : *end ? end + 1 : end;
}

static bool ends_bare(const char *c, bool is_line, bool is_json)
{
    return *c == '\0' || *c == '\n' || *c == '\r' || *c == '"' ||
           (*c == '\\' && c[1] && strchr("\"nrt", c[1])) ||
           (!is_line && (isspace((unsigned char)*c) || *c == '&')) ||
           (is_json && strchr(",}]", *c));
}

/* The end of a value without quotes. One in JSON (its name is quoted) is a number or a word. */
static char *end_of_bare(char *from, bool is_line, bool is_json)
{
    char *c = from;
    while (!ends_bare(c, is_line, is_json)) {
        char *part = is_line && c[1] ? skip_quoted_part(c) : c;
        c = part > c ? part : c + 1;
    }
    return c;
}

/* The scheme of an Authorization header is kept; what follows it is the secret. */
static char *skip_scheme(char *value)
{
    char *c = value;
    while (isalnum((unsigned char)*c) || *c == '-') {
        c++;
    }
    return c > value && is_blank(*c) ? c + strspn(c, " \t") : value;
}

/* Masks the value at `value` and returns its end. */
static char *mask_value(char *value, const char *plain, bool is_json)
{
    bool is_authorization = ends_in(plain, authorization, CV_COUNT(authorization));
    bool is_header = ends_in(plain, header_names, CV_COUNT(header_names)) && value[-1] != '=';
    bool is_escaped = value[0] == '\\' && (value[1] == '"' || value[1] == '\'');
    if (is_escaped) {
        value++;
    }
    char quote = *value == '"' || *value == '\'' ? *value++ : '\0';
    char *end = quote ? end_of_quoted(value, quote, is_escaped)
                      : end_of_bare(value, is_authorization || is_header, is_json);
    char *secret = is_authorization ? skip_scheme(value) : value;
    mask(secret < end ? secret : value, end);
    return end;
}

/* Where the value assigned to the name that ends at `end` begins; NULL when nothing is assigned.
 * Recognised forms: `password=x`, `password: x`, `"password": "x"`, `['password'] => 'x'`,
 * `--password x`, `"--password", "x"` and `<Password>x<`. */
static char *find_value(const char *text, const char *name, char *end, bool *ret_is_json)
{
    char *c = end;
    *ret_is_json = *c == '"' && name > text && name[-1] == '"';
    if (*c == '>' && name > text && name[-1] == '<') {
        return c + 1;
    }
    while (*c && strchr("\\\"'] \t", *c)) {
        c++;
    }
    if (*c == '=' || *c == ':') {
        c += strspn(c, "=:>");
        return c + strspn(c, " \t");
    }
    if (name[0] != '-' || c == end) {
        return NULL;
    }
    *ret_is_json = false;
    c += strspn(c, ", \t");
    return *c == '-' && c[1] == '-' ? NULL : c;
}

static void mask_named(char *text)
{
    for (char *c = text; *c;) {
        if (!is_name_character(*c)) {
            c++;
            continue;
        }
        char *end = c;
        while (is_name_character(*end)) {
            end++;
        }
        char plain[NAME_MAX_LENGTH];
        plain_name(c, (size_t)(end - c), plain);
        bool is_json = false;
        char *value = is_secret_name(plain) ? find_value(text, c, end, &is_json) : NULL;
        bool is_element = value && value[-1] == '>' && *end == '>';
        if (is_element) {
            c = value + strcspn(value, "<");
            mask(value, c);
        } else {
            c = value ? mask_value(value, plain, is_json) : end;
        }
    }
}

/* ---- secrets that are recognised by their form ------------------------------------------------- */

/* scheme://user:password@host, and scheme://token@host. */
static void mask_user_info(char *text)
{
    enum { TOKEN_LENGTH = 20 }; /* user names are shorter */
    for (char *scheme = strstr(text, "://"); scheme; scheme = strstr(scheme + 3, "://")) {
        char *user = scheme + 3;
        char *end = user + strcspn(user, "/?# \t\r\n\"'<>");
        char *at = memrchr(user, '@', (size_t)(end - user));
        char *colon = at ? memchr(user, ':', (size_t)(at - user)) : NULL;
        if (colon) {
            mask(colon + 1, at);
        } else if (at && at - user >= TOKEN_LENGTH) {
            mask(user, at);
        }
    }
}

/* Characters of base64, base64url and '.' that follow such a prefix are a secret. */
static const struct {
    const char *prefix;
    size_t least; /* characters of the secret, so that ordinary words are not masked */
} known_secrets[] = {
    {"whsec_", 1},  {"cvk_", 20},        {"eyJ", 16},   {"AKIA", 16},
    {"ASIA", 16},   {"ghp_", 20},        {"gho_", 20},  {"ghs_", 20},
    {"glpat-", 16}, {"github_pat_", 20}, {"xoxb-", 16}, {"xoxp-", 16},
    {"sk-", 20},    {"sk_live_", 16},    {"AIza", 30},  {"hf_", 20},
};

static bool is_token_character(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("-_.+/=~", c));
}

static size_t token_length(const char *text)
{
    size_t length = 0;
    while (is_token_character(text[length])) {
        length++;
    }
    return length;
}

static char *mask_known(char *token)
{
    size_t length = token_length(token);
    char *end = token + length;
    while (length > 0 && token[length - 1] == '.') {
        length--; /* the full stop of a sentence */
    }
    for (size_t i = 0; i < CV_COUNT(known_secrets); i++) {
        size_t prefix = strlen(known_secrets[i].prefix);
        if (strncmp(token, known_secrets[i].prefix, prefix) == 0 &&
            length >= prefix + known_secrets[i].least) {
            mask(token + prefix, token + length);
        }
    }
    return end;
}

/* "Bearer abc123" and "Basic dXNlcjp4" without their header. "Basic authentication" is not masked.
 */
static void mask_after_scheme(char *scheme, char *end)
{
    enum { LEAST = 6, LONG = 24 };
    bool is_scheme = (end - scheme == 6 && strncasecmp(scheme, "bearer", 6) == 0) ||
                     (end - scheme == 5 && strncasecmp(scheme, "basic", 5) == 0);
    char *token = end + strspn(end, " \t");
    size_t length = token_length(token);
    bool is_word = true;
    for (size_t i = 0; i < length; i++) {
        is_word = is_word && (islower((unsigned char)token[i]) || (i == 0 && isalpha(token[0])) ||
                              (i + 1 == length && strchr(".=/-", token[i])));
    }
    if (is_scheme && token > end && length >= LEAST && (!is_word || length >= LONG)) {
        mask(token, token + length);
    }
}

/* A secret key of AWS: forty characters of base64. A SHA-1 in hexadecimal has no capitals, so it
 * is not masked. */
static void mask_aws_key(char *token, const char *end)
{
    enum { LENGTH = 40 };
    bool has_upper = false, has_lower = false, has_digit = false;
    if (end - token != LENGTH) {
        return;
    }
    for (char *c = token; c < end; c++) {
        has_upper = has_upper || isupper((unsigned char)*c);
        has_lower = has_lower || islower((unsigned char)*c);
        has_digit = has_digit || isdigit((unsigned char)*c);
        if (!isalnum((unsigned char)*c) && *c != '/' && *c != '+') {
            return;
        }
    }
    if (has_upper && has_lower && has_digit) {
        mask(token, end);
    }
}

static void mask_private_keys(char *text)
{
    static const char name[] = "PRIVATE KEY-----";
    for (char *c = strstr(text, "-----BEGIN "); c; c = strstr(c, "-----BEGIN ")) {
        c += strlen("-----BEGIN ");
        char *end = strstr(c, "-----END");
        end = end ? end : c + strlen(c);
        char *key = strstr(c, name);
        for (key = key ? key + strlen(name) : end; key < end; key++) {
            if (isalnum((unsigned char)*key) || *key == '+' || *key == '/' || *key == '=') {
                *key = '*';
            }
        }
    }
}

static void mask_tokens(char *text)
{
    for (char *c = text; *c;) {
        if (!is_token_character(*c)) {
            c++;
            continue;
        }
        char *end = mask_known(c);
        mask_aws_key(c, end);
        mask_after_scheme(c, end);
        /* "key=AKIA…" is a single run of these characters. */
        char *equals = memchr(c, '=', (size_t)(end - c));
        c = equals && equals + 1 < end ? equals + 1 : end;
    }
}

void cv_redact(char *text)
{
    mask_private_keys(text);
    mask_user_info(text);
    mask_tokens(text);
    mask_named(text);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char masked[] = "***";

static bool is_secret_key(const char *key)
{
    char plain[NAME_MAX_LENGTH];
    plain_name(key, strlen(key), plain);
    return is_secret_name(plain);
}

static bool is_secret_option(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && text[0] == '-' && !strchr(text, '=') && is_secret_key(text);
}

static bool is_named_secret(const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    name = name ? name : json_string_value(json_object_get(object, "key"));
    return name && is_secret_key(name);
}

static json_t *redacted(const json_t *value);

static json_t *redacted_string(const json_t *value)
{
    cv_auto_free char *text = strndup(json_string_value(value), json_string_length(value));
    if (!text) {
        return NULL;
    }
    if (strlen(text) != json_string_length(value)) {
        return json_string(masked); /* text behind a NUL would not be redacted, so it is dropped */
    }
    cv_redact(text);
    return json_string(text);
}

static json_t *redacted_array(const json_t *array)
{
    json_t *made = json_array();
    bool is_secret = false;
    for (size_t i = 0; made && i < json_array_size(array); i++) {
        const json_t *value = json_array_get(array, i);
        json_t *shown = is_secret ? json_string(masked) : redacted(value);
        is_secret = is_secret_option(value);
        if (json_array_append_new(made, shown) != 0) {
            json_decref(made);
            return NULL;
        }
    }
    return made;
}

static json_t *redacted_object(const json_t *object)
{
    json_t *made = json_object();
    bool is_named = is_named_secret(object);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        bool is_secret = is_secret_key(key) || (is_named && strcmp(key, "value") == 0);
        bool is_plain = json_is_null(value) || json_is_boolean(value);
        json_t *shown = is_secret && !is_plain ? json_string(masked) : redacted(value);
        if (!made || json_object_set_new(made, key, shown) != 0) {
            json_decref(made);
            return NULL;
        }
    }
    return made;
}

static json_t *redacted(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return redacted_object(value);
    case JSON_ARRAY:
        return redacted_array(value);
    case JSON_STRING:
        return redacted_string(value);
    default:
        return json_incref((json_t *)value);
    }
}

int cv_redacted_json(const json_t *value, json_t **ret_value, struct cv_error *error)
{
    json_t *made = redacted(value);
    CV_TRY_MEMORY(made, error, "a text without its secrets");
    *ret_value = made;
    return 0;
}

int cv_redacted_text(const char *text, char **ret_text, struct cv_error *error)
{
    char first = text[strspn(text, " \t\r\n")]; /* an object or list begins with it */
    cv_auto(json_decref) json_t *value =
        first == '{' || first == '[' ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
    cv_auto(json_decref) json_t *shown = NULL;
    CV_TRY(value ? cv_redacted_json(value, &shown, error) : 0);
    char *made = shown ? json_dumps(shown, JSON_COMPACT) : strdup(text);
    CV_TRY_MEMORY(made, error, "a text without its secrets");
    if (!shown) {
        cv_redact(made);
    }
    *ret_text = made;
    return 0;
}
