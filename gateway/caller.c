#include "gateway/caller.h"

#include <openssl/evp.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    TOKEN_TEXT_MAX = 8192,
    KEY_PREFIX_DIGITS = 8,
    KEY_SECRET_DIGITS = 43, /* 32 bytes in base64url */
};
static const char key_mark[] = "cvk_";
/* Browsers accept __Host- cookies only over TLS, from the host itself, for all paths. */
#define COOKIE_NAME "__Host-cortana"
#define COOKIE_NAME_PLAIN "cortana"

const char *caller_find_cookie(const char *cookies, const char *name, size_t *ret_length,
                               int *ret_count)
{
    const char *found = NULL;
    size_t name_length = strlen(name);
    while (cookies && *cookies) {
        cookies += strspn(cookies, "; \t");
        size_t length = strcspn(cookies, ";");
        if (length > name_length && strncmp(cookies, name, name_length) == 0 &&
            cookies[name_length] == '=') {
            found = cookies + name_length + 1;
            *ret_length = length - name_length - 1;
            ++*ret_count;
        }
        cookies += length;
    }
    return found;
}

static bool is_own_origin(const struct exchange *exchange, const char *origin)
{
    const char *host = exchange_header(exchange, "Host");
    const char *authority = strstr(origin, "://");
    return host && authority && strcasecmp(authority + 3, host) == 0;
}

/* Whether the request comes from our own page: a page of another site can neither set X-Cortana
 * without permission nor fake its origin. */
static bool is_own_page(const struct exchange *exchange)
{
    const char *origin = exchange_header(exchange, "Origin");
    const char *mark = exchange_header(exchange, "X-Cortana");
    return mark && strcmp(mark, "1") == 0 && origin && is_own_origin(exchange, origin);
}

static bool take_token(char token[TOKEN_TEXT_MAX], const char *text, size_t length)
{
    if (length == 0 || length >= TOKEN_TEXT_MAX) {
        return false;
    }
    (void)memcpy(token, text, length);
    token[length] = '\0';
    return true;
}

/* Whether the text has the form of an API key: cvk_, 8 digits that identify it, _, 43 digits. */
static bool is_key(const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *prefix = text + strlen(key_mark);
    return strncmp(text, key_mark, strlen(key_mark)) == 0 &&
           strspn(prefix, digits + 26) >= KEY_PREFIX_DIGITS && prefix[KEY_PREFIX_DIGITS] == '_' &&
           strlen(prefix + KEY_PREFIX_DIGITS + 1) == KEY_SECRET_DIGITS &&
           strspn(prefix + KEY_PREFIX_DIGITS + 1, digits) == KEY_SECRET_DIGITS;
}

/* Stores the key's digest, by which the database finds keys. The digest of 32 random bytes reveals
 * nothing, nor does the time of looking it up. */
static const char *note_key(struct exchange *exchange, const char *key)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    struct principal *principal = &exchange->principal;
    *principal = (struct principal){.database_role = "anon", .claims = strdup("{}")};
    if (!principal->claims || EVP_Digest(key, strlen(key), digest, NULL, EVP_sha256(), NULL) != 1) {
        exchange_refuse(exchange, 503, "busy", "Try again", "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < KEY_DIGEST_SIZE / 2; i++) {
        (void)snprintf(principal->key_digest + 2 * i, 3, "%02x", digest[i]);
    }
    return NULL;
}

static const char *verify(struct exchange *exchange, struct key_source *keys, const char *token)
{
    enum token_fault fault =
        key_source_verify(keys, token, (int64_t)time(NULL), &exchange->principal);
    if (fault == TOKEN_GOOD) {
        return NULL;
    }
    if (fault == TOKEN_ROLE) {
        exchange_refuse(exchange, 403, "forbidden", "You may not do this",
                        "the token's role is not one that may use this API");
    } else {
        exchange_refuse(exchange, 401, "unauthorized", "Sign in",
                        fault == TOKEN_EXPIRED
                            ? "the token has expired, or does not say when it does"
                            : "the token is not valid");
    }
    return token_fault_name(fault);
}

static const char *identify_nobody(struct exchange *exchange)
{
    exchange->principal =
        (struct principal){.database_role = "anon", .claims = strdup("{}"), .name = "nobody"};
    if (!exchange->principal.claims) {
        exchange_refuse(exchange, 503, "busy", "Try again", "out of memory");
    }
    return NULL;
}

const char *caller_identify(struct exchange *exchange, struct key_source *keys,
                            bool is_plain_cookie_allowed)
{
    char token[TOKEN_TEXT_MAX];
    const char *authorization = exchange_header(exchange, "Authorization");
    const char *cookies = exchange_header(exchange, "Cookie");
    size_t length = 0;
    int count = 0;
    const char *cookie = caller_find_cookie(cookies, COOKIE_NAME, &length, &count);
    if (!cookie && is_plain_cookie_allowed) {
        cookie = caller_find_cookie(cookies, COOKIE_NAME_PLAIN, &length, &count);
    }
    if ((authorization && cookie) || count > 1) {
        exchange_refuse(
            exchange, 400, "bad-request", "The request cannot be understood",
            "it brings more than one credential: send the header Authorization or the cookie");
        return "several";
    }
    if (cookie) {
        if (exchange->is_write && !is_own_page(exchange)) {
            exchange_refuse(
                exchange, 403, "forbidden", "You may not do this",
                "with the cookie, a change needs the headers Origin (this site) and X-Cortana: 1");
            return "origin";
        }
        if (take_token(token, cookie, length)) {
            return verify(exchange, keys, token);
        }
    } else if (!authorization) {
        return identify_nobody(exchange);
    } else if (strncasecmp(authorization, "Bearer ", 7) == 0 &&
               take_token(token, authorization + 7, strlen(authorization + 7))) {
        return is_key(token) ? note_key(exchange, token) : verify(exchange, keys, token);
    }
    exchange_refuse(exchange, 401, "unauthorized", "Sign in",
                    "the credential is not a bearer token");
    return token_fault_name(TOKEN_MALFORMED);
}

/* ---- the cookie --------------------------------------------------------------------------------- */

static void set_cookie(struct exchange *exchange, bool is_plain, const char *token, int64_t seconds)
{
    struct cv_error error;
    if (cv_format(&exchange->cookie, &error,
                  "%s=%s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Strict%s",
                  is_plain ? COOKIE_NAME_PLAIN : COOKIE_NAME, token, (long long)seconds,
                  is_plain ? "" : "; Secure") != 0) {
        exchange_refuse(exchange, 503, "busy", "Try again", "out of memory");
    }
}

const char *caller_identify_newcomer(struct exchange *exchange)
{
    const char *origin = exchange_header(exchange, "Origin");
    if (origin && !is_own_origin(exchange, origin)) {
        exchange_refuse(exchange, 403, "forbidden", "You may not do this",
                        "a page of another site cannot sign somebody in or out here");
        return "origin";
    }
    return identify_nobody(exchange);
}

const char *caller_sign_in(struct exchange *exchange, struct key_source *keys,
                           bool is_plain_cookie_allowed)
{
    cv_auto_free char *token = NULL;
    const char *given = json_string_value(json_object_get(exchange->values, "token"));
    struct cv_error error;
    if (cv_format(&token, &error, "%s", given ? given : "") != 0 ||
        json_object_del(exchange->values, "token") != 0) {
        exchange_refuse(exchange, 503, "busy", "Try again", "out of memory");
        return NULL;
    }
    principal_deinit(&exchange->principal);
    const char *fault = verify(exchange, keys, token);
    if (!fault && strcmp(exchange->principal.database_role, "anon") == 0) {
        exchange_refuse(exchange, 403, "forbidden", "You may not do this",
                        "the token's role is not one that may use this API");
        return token_fault_name(TOKEN_ROLE);
    }
    if (!fault) {
        int64_t left = exchange->principal.expires_s - (int64_t)time(NULL);
        set_cookie(exchange, is_plain_cookie_allowed, token, left > 0 ? left : 0);
    }
    return fault;
}

void caller_sign_out(struct exchange *exchange, bool is_plain_cookie_allowed)
{
    exchange->answer.status = 204;
    set_cookie(exchange, is_plain_cookie_allowed, "", 0);
}
