#include "common/base/base.h"

#include <ctype.h>
#include <string.h>

/* Names whose value is a secret wherever they stand: in a libpq string, a URL's query, a JSON text.
 */
static const char *const secret_names[] = {
    "password", "passwd",        "secret",          "secret_access_key", "secretaccesskey",
    "token",    "session_token", "x-amz-signature", "x-amz-credential",  "signature",
    "api_key",  "apikey",        "access_key",      "authorization",     "x-amz-security-token",
};

static bool name_character(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static bool ends_value(char c)
{
    return c == '\0' || c == '&' || c == ';' || c == ',' || c == '}' || isspace((unsigned char)c);
}

static char *mask_until(char *from, char quote)
{
    char *c = from;
    while (quote ? (*c && *c != quote) : !ends_value(*c)) {
        *c++ = '*';
    }
    return c;
}

/* `name` followed by = or : (quotes and blanks allowed between) has its value masked. */
static void redact_named(char *text, const char *name)
{
    size_t length = strlen(name);
    for (char *c = text; *c; c++) {
        if (strncasecmp(c, name, length) != 0 || (c > text && isalnum((unsigned char)c[-1])) ||
            name_character(c[length])) {
            continue;
        }
        char *value = c + length;
        while (*value == '"' || *value == '\'' || *value == ' ') {
            value++;
        }
        if (*value != '=' && *value != ':') {
            continue;
        }
        do {
            value++;
        } while (*value == ' ');
        char quote = *value == '"' || *value == '\'' ? *value++ : '\0';
        c = mask_until(value, quote);
        if (!*c) {
            return;
        }
    }
}

/* scheme://user:password@host */
static void redact_user_info(char *text)
{
    for (char *scheme = strstr(text, "://"); scheme; scheme = strstr(scheme + 3, "://")) {
        char *user = scheme + 3;
        char *end = user + strcspn(user, "/?# \t\"'");
        char *at = NULL;
        for (char *c = user; c < end; c++) {
            if (*c == '@') {
                at = c;
            }
        }
        char *colon = at ? memchr(user, ':', (size_t)(at - user)) : NULL;
        if (colon) {
            memset(colon + 1, '*', (size_t)(at - colon - 1));
        }
    }
}

/* Secrets that say themselves what they are. */
static void redact_webhook_secrets(char *text)
{
    static const char prefix[] = "whsec_";
    for (char *c = strstr(text, prefix); c; c = strstr(c, prefix)) {
        c += strlen(prefix);
        while (isalnum((unsigned char)*c) || *c == '+' || *c == '/' || *c == '=') {
            *c++ = '*';
        }
    }
}

void cv_redact(char *text)
{
    redact_webhook_secrets(text);
    redact_user_info(text);
    for (size_t i = 0; i < CV_COUNT(secret_names); i++) {
        redact_named(text, secret_names[i]);
    }
}
