#include "gateway/caller.h"

#include <string.h>
#include <strings.h>
#include <time.h>

enum { TOKEN_TEXT_MAX = 8192 };

static const char *header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

static void refuse(struct exchange *exchange, unsigned status, const char *kind, const char *title,
                   const char *detail)
{
    answer_refuse(
        &exchange->answer,
        &(struct problem){.status = status, .kind = kind, .title = title, .detail = detail},
        exchange->id);
}

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

/* A page of another site cannot set X-Cortana without our leave, nor lie about its origin. */
static bool is_own_page(const struct exchange *exchange)
{
    const char *origin = header(exchange, "Origin");
    const char *host = header(exchange, "Host");
    const char *mark = header(exchange, "X-Cortana");
    const char *authority = origin ? strstr(origin, "://") : NULL;
    return mark && strcmp(mark, "1") == 0 && host && authority &&
           strcasecmp(authority + 3, host) == 0;
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

static const char *verify(struct exchange *exchange, const struct token_keys *keys,
                          const char *token)
{
    enum token_fault fault = token_verify(keys, token, (int64_t)time(NULL), &exchange->principal);
    if (fault == TOKEN_GOOD) {
        return NULL;
    }
    if (fault == TOKEN_ROLE) {
        refuse(exchange, 403, "forbidden", "You may not do this",
               "the token's role is not one that may use this API");
    } else {
        refuse(exchange, 401, "unauthorized", "Sign in",
               fault == TOKEN_EXPIRED ? "the token has expired, or does not say when it does"
                                      : "the token is not valid");
    }
    return token_fault_name(fault);
}

static const char *identify_nobody(struct exchange *exchange)
{
    exchange->principal = (struct principal){"anon", strdup("{}")};
    if (!exchange->principal.claims) {
        refuse(exchange, 503, "busy", "Try again", "out of memory");
    }
    return NULL;
}

const char *caller_identify(struct exchange *exchange, const struct token_keys *keys,
                            bool is_plain_cookie_allowed)
{
    char token[TOKEN_TEXT_MAX];
    const char *authorization = header(exchange, "Authorization");
    const char *cookies = header(exchange, "Cookie");
    size_t length = 0;
    int count = 0;
    const char *cookie = caller_find_cookie(cookies, "__Host-cortana", &length, &count);
    if (!cookie && is_plain_cookie_allowed) {
        cookie = caller_find_cookie(cookies, "cortana", &length, &count);
    }
    if ((authorization && cookie) || count > 1) {
        refuse(exchange, 400, "bad-request", "The request cannot be understood",
               "it brings more than one credential: send the header Authorization or the cookie");
        return "several";
    }
    if (cookie) {
        if (exchange->is_write && !is_own_page(exchange)) {
            refuse(
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
        return verify(exchange, keys, token);
    }
    refuse(exchange, 401, "unauthorized", "Sign in", "the credential is not a bearer token");
    return token_fault_name(TOKEN_MALFORMED);
}
