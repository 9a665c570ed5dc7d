#include "gateway/caller.h"

#include <openssl/evp.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* ---- who calls ------------------------------------------------------------------------------- */

enum {
    TOKEN_TEXT_MAX = 8192,
    KEY_PREFIX_DIGITS = 8,
    SECRET_DIGITS = 43, /* 32 bytes in base64url */
    CODE_DIGITS = 22,   /* 16 bytes in base64url */
};
static const char key_mark[] = "cvk_";
static const char session_mark[] = "cvs_";
static const char cookie_name[] = "cortana";

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
    static const char http[] = "http://", https[] = "https://";
    const char *host = exchange_header(exchange, "Host");
    bool is_http = strncmp(origin, http, strlen(http)) == 0;
    bool is_https = strncmp(origin, https, strlen(https)) == 0;
    const char *authority = origin + (is_https ? strlen(https) : strlen(http));
    return host &&
           ((is_http && exchange->admission->is_http) ||
            (is_https && exchange->admission->is_https)) &&
           strcasecmp(authority, host) == 0;
}

/* Whether the request comes from our own page: a page of another site can neither set X-Cortana
 * without permission nor fake its origin. */
static bool is_own_page(const struct exchange *exchange)
{
    const char *origin = exchange_header(exchange, "Origin");
    const char *mark = exchange_header(exchange, "X-Cortana");
    return mark && strcmp(mark, "1") == 0 && origin && is_own_origin(exchange, origin);
}

static bool copy_token(char token[TOKEN_TEXT_MAX], const char *text, size_t length)
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
    const char *digits = cv_base64url_digits;
    const char *prefix = text + strlen(key_mark);
    return strncmp(text, key_mark, strlen(key_mark)) == 0 &&
           strspn(prefix, digits + 26) >= KEY_PREFIX_DIGITS && prefix[KEY_PREFIX_DIGITS] == '_' &&
           strlen(prefix + KEY_PREFIX_DIGITS + 1) == SECRET_DIGITS &&
           strspn(prefix + KEY_PREFIX_DIGITS + 1, digits) == SECRET_DIGITS;
}

/* Whether the text has the form of a session's secret: cvs_, 43 digits. */
static bool is_session(const char *text)
{
    const char *digits = text + strlen(session_mark);
    return strncmp(text, session_mark, strlen(session_mark)) == 0 &&
           strlen(digits) == SECRET_DIGITS && strspn(digits, cv_base64url_digits) == SECRET_DIGITS;
}

/* Whether the text has the form of the code in a link. A token has points. */
static bool is_code(const char *text)
{
    return strlen(text) == CODE_DIGITS && strspn(text, cv_base64url_digits) == CODE_DIGITS;
}

bool caller_digest(const char *secret, size_t length, char digest[KEY_DIGEST_SIZE])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    if (EVP_Digest(secret, length, bytes, NULL, EVP_sha256(), NULL) != 1) {
        return false;
    }
    cv_hex(bytes, KEY_DIGEST_SIZE / 2, digest);
    return true;
}

/* Stores the digest of an API key or a session. */
static const char *record_key(struct exchange *exchange, const char *key)
{
    struct principal *principal = &exchange->principal;
    *principal = (struct principal){.database_role = "anon", .claims = strdup("{}")};
    if (!principal->claims || !caller_digest(key, strlen(key), principal->key_digest)) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
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
        exchange_refuse(exchange, REFUSE_FORBIDDEN,
                        "the token's role is not one that may use this API");
    } else {
        exchange_refuse(exchange, REFUSE_UNAUTHORIZED,
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
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
    }
    return NULL;
}

const char *caller_cookie(const struct exchange *exchange, const char *name, size_t *ret_length,
                          int *ret_count)
{
    char secure[64];
    const char *cookies = exchange_header(exchange, "Cookie");
    (void)snprintf(secure, sizeof(secure), "__Host-%s", name);
    const char *cookie = caller_find_cookie(cookies, secure, ret_length, ret_count);
    return cookie || !exchange->admission->is_plain_cookie_allowed
               ? cookie
               : caller_find_cookie(cookies, name, ret_length, ret_count);
}

/* Fills exchange->principal: anon if there is no credential; only the digest if it is an API key
 * or a session. Or refuses (401, 403, 400) in exchange->answer. Returns why a token was refused, for the metrics;
 * NULL: it was not. */
static const char *caller_identify(struct exchange *exchange)
{
    char token[TOKEN_TEXT_MAX];
    const char *authorization = exchange_header(exchange, "Authorization");
    size_t length = 0;
    int count = 0;
    const char *cookie = caller_cookie(exchange, cookie_name, &length, &count);
    if ((authorization && cookie) || count > 1) {
        exchange_refuse(
            exchange, REFUSE_BAD_REQUEST,
            "it brings more than one credential: send the header Authorization or the cookie");
        return "several";
    }
    if (cookie) {
        if (exchange->access == ACCESS_WRITE && !is_own_page(exchange)) {
            exchange_refuse(
                exchange, REFUSE_FORBIDDEN,
                "with the cookie, a change needs the headers Origin (this site) and X-Cortana: 1");
            return "origin";
        }
        if (copy_token(token, cookie, length)) {
            return is_session(token) ? record_key(exchange, token)
                                     : verify(exchange, exchange->admission->keys, token);
        }
    } else if (!authorization) {
        return identify_nobody(exchange);
    } else if (strncasecmp(authorization, "Bearer ", 7) == 0 &&
               copy_token(token, authorization + 7, strlen(authorization + 7))) {
        return is_key(token) || is_session(token)
                   ? record_key(exchange, token)
                   : verify(exchange, exchange->admission->keys, token);
    }
    exchange_refuse(exchange, REFUSE_UNAUTHORIZED, "the credential is not a bearer token");
    return token_fault_name(TOKEN_MALFORMED);
}

/* ---- the cookie --------------------------------------------------------------------------------- */

void caller_set_cookie(struct exchange *exchange, const char *name, const char *value,
                       int64_t seconds)
{
    bool is_plain = exchange->admission->is_plain_cookie_allowed;
    struct cv_error error;
    if (cv_format(&exchange->cookie, &error,
                  "%s%s=%s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Strict%s",
                  is_plain ? "" : "__Host-", name, value, (long long)seconds,
                  is_plain ? "" : "; Secure") != 0) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
    }
}

/* For an operation that signs in or out: the principal is anon, whatever cookie the browser still
 * has. Refuses (403) requests that come from a page of another site. Returns as caller_identify. */
static const char *caller_identify_newcomer(struct exchange *exchange)
{
    const char *origin = exchange_header(exchange, "Origin");
    if (origin && !is_own_origin(exchange, origin)) {
        exchange_refuse(exchange, REFUSE_FORBIDDEN,
                        "a page of another site cannot sign somebody in or out here");
        return "origin";
    }
    return identify_nobody(exchange);
}

static bool caller_only_asks(const struct exchange *exchange)
{
    return json_is_true(json_object_get(exchange->values, "dry_run"));
}

/* Sets the principal from a token and, unless the caller only asks whom it signs in, makes it the cookie
 * of the answer; or refuses (401, 403). Returns as caller_identify. */
static const char *sign_in_with(struct exchange *exchange, const char *token)
{
    principal_deinit(&exchange->principal);
    const char *fault = verify(exchange, exchange->admission->keys, token);
    if (!fault && strcmp(exchange->principal.database_role, "anon") == 0) {
        exchange_refuse(exchange, REFUSE_FORBIDDEN,
                        "the token's role is not one that may use this API");
        return token_fault_name(TOKEN_ROLE);
    }
    if (!fault && !caller_only_asks(exchange)) {
        int64_t left = exchange->principal.expires_s - (int64_t)time(NULL);
        caller_set_cookie(exchange, cookie_name, token, left > 0 ? left : 0);
    }
    return fault;
}

/* Puts the digest of a link's code in the place of the code. */
static int replace_code(struct exchange *exchange, const char *code)
{
    char digest[KEY_DIGEST_SIZE];
    return caller_digest(code, strlen(code), digest)
               ? json_object_set_new(exchange->values, "digest", json_string(digest)) |
                     json_object_set_new(exchange->entry, "digest", json_string(digest))
               : -1;
}

/* Makes exchange->entry of the parameters and of what the gateway knows of the browser. */
static int make_entry(struct exchange *exchange)
{
    static const char *const secrets[] = {"token", "code", "password", "new_password",
                                          "provider_code"};
    const char *program = exchange_header(exchange, "User-Agent");
    exchange->entry =
        json_pack("{s:s, s:s*, s:o*, s:b}", "by", exchange->operation->name, "address",
                  exchange->address[0] ? exchange->address : NULL, "program",
                  program ? json_string(program) : NULL, "only_asks", caller_only_asks(exchange));
    int result = exchange->entry ? json_object_update(exchange->entry, exchange->values) : -1;
    for (size_t i = 0; i < CV_COUNT(secrets); i++) {
        (void)json_object_del(exchange->values, secrets[i]);
    }
    return result;
}

/* Returns as caller_identify. */
static const char *read_secrets(struct exchange *exchange)
{
    if (make_entry(exchange) != 0) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
        return NULL;
    }
    const char *token = json_string_value(json_object_get(exchange->entry, "token"));
    const char *code = token ? token : json_string_value(json_object_get(exchange->entry, "code"));
    if (token && !is_code(token)) {
        const char *fault = sign_in_with(exchange, token);
        json_decref(exchange->entry);
        exchange->entry = NULL;
        return fault;
    }
    if (code && replace_code(exchange, code) != 0) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
    }
    (void)json_object_del(exchange->entry, token ? "token" : "code");
    return NULL;
}

/* Sets the principal and the cookie of a session that has begun. Returns as caller_identify. */
static const char *accept_session(struct exchange *exchange, const char *text)
{
    cv_auto(json_decref) json_t *session = text ? json_loads(text, 0, NULL) : NULL;
    const json_t *claims = json_object_get(session, "claims");
    const char *secret = json_string_value(json_object_get(session, "secret"));
    bool has_code = json_object_get(exchange->entry, "digest") != NULL;
    principal_deinit(&exchange->principal);
    if (!json_is_object(claims)) {
        exchange_refuse(
            exchange, REFUSE_UNAUTHORIZED,
            has_code ? "the link has expired or was used: ask whoever gave it to you for "
                       "another one; cortana run and cortana search --open make another one, too"
                     : "the e-mail address or the password is wrong");
        return token_fault_name(TOKEN_UNKNOWN_KEY);
    }
    enum token_fault fault =
        key_source_accept(exchange->admission->keys, claims, &exchange->principal);
    if (fault != TOKEN_GOOD) {
        exchange_refuse(
            exchange, REFUSE_FORBIDDEN,
            "your role is not one that may use this API: this gateway serves no operators");
        return token_fault_name(fault);
    }
    if (secret) {
        caller_set_cookie(exchange, cookie_name, secret,
                          exchange->principal.expires_s - (int64_t)time(NULL));
    }
    return NULL;
}

void admission_sign_out(struct exchange *exchange)
{
    static const enum step sent[] = {STEP_SIGN_OUT, STEP_SEND};
    char token[TOKEN_TEXT_MAX], digest[KEY_DIGEST_SIZE];
    size_t length = 0;
    int count = 0;
    const char *cookie = caller_cookie(exchange, cookie_name, &length, &count);
    caller_set_cookie(exchange, cookie_name, "", 0);
    if (!cookie || !copy_token(token, cookie, length) || !is_session(token) ||
        !caller_digest(token, length, digest) ||
        json_object_set_new(exchange->values, "digest", json_string(digest)) != 0) {
        exchange->answer.status = 204; /* a token ends by itself */
        exchange->at = sent;
    }
}

/* ---- admission ------------------------------------------------------------------------------- */

static const struct cv_metric auth_failures =
    CV_COUNTER("cortana_api_auth_failures_total", "Credentials that were refused.", "reason");
static const struct cv_metric rate_limited =
    CV_COUNTER("cortana_api_rate_limited_total",
               "Requests that were refused because their caller has asked too often.", "class");

/* ---- the address --------------------------------------------------------------------------------- */

enum { FORWARDED_SIZE = 1024 };

/* Joins the lines of X-Forwarded-For. */
static enum MHD_Result join_line(void *opaque, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    char *text = opaque;
    size_t used = strlen(text);
    (void)kind;
    if (value && strcasecmp(name, "X-Forwarded-For") == 0) {
        size_t length = strlen(value);
        if (used + length + 2 > FORWARDED_SIZE) {
            /* The end of the list matters, so earlier lines are dropped if there is no room. */
            text[0] = '\0';
            used = 0;
            value += length < FORWARDED_SIZE - 2 ? 0 : length - (FORWARDED_SIZE - 2);
        }
        (void)snprintf(text + used, FORWARDED_SIZE - used, "%s%s", used ? "," : "", value);
    }
    return MHD_YES;
}

static void find_address(struct exchange *exchange)
{
    char forwarded[FORWARDED_SIZE] = "";
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (exchange->admission->proxies.count > 0) {
        (void)MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, join_line,
                                        forwarded);
    }
    if (info) {
        address_find(info->client_addr, forwarded, &exchange->admission->proxies,
                     exchange->address);
    }
}

/* ---- limits -------------------------------------------------------------------------------------- */

static void refuse_as_too_often(struct exchange *exchange)
{
    exchange->answer.retry_after_s = exchange->rate.retry_s;
    exchange_refuse(exchange, REFUSE_TOO_MANY,
                    "you ask too often: wait for as long as the header Retry-After says");
    cv_metric_add(exchange->admission->metrics, &rate_limited,
                  CV_LABELS(rate_class_name(exchange->rate.class)), 1);
}

/* Counts a credential that was refused, by its address. Who goes on guessing is told to wait; a valid
 * credential is never counted and never refused for what others of its address have sent. */
static void count_fault(struct exchange *exchange, const char *fault)
{
    char network[ADDRESS_TEXT_SIZE];
    if (!fault) {
        return;
    }
    limits_network(exchange->address, network);
    struct rate_state state = limits_charge(exchange->admission->limits, RATE_FAILURE, network);
    cv_metric_add(exchange->admission->metrics, &auth_failures, CV_LABELS(fault), 1);
    if (state.is_over) {
        exchange->rate = state;
        refuse_as_too_often(exchange);
    }
}

/* Callers who are not signed in, or whose key has not been looked up yet, are counted by address. */
static void charge_caller(struct exchange *exchange)
{
    char network[ADDRESS_TEXT_SIZE];
    const struct principal *principal = &exchange->principal;
    const char *name = principal->name;
    if (principal->key_digest[0]) {
        name = principal->key_digest;
    } else if (principal->role == CALLER_NOBODY) {
        limits_network(exchange->address, network);
        name = network;
    }
    exchange->rate = limits_charge(exchange->admission->limits, exchange->operation->rate, name);
    if (exchange->rate.is_over) {
        refuse_as_too_often(exchange);
    }
}

/* ---- the rights of the caller ---------------------------------------------------------------- */

void admission_check_rights(struct exchange *exchange)
{
    static const char *const needed[] = {
        [CALLER_EDITOR] = "this needs the role editor",
        [CALLER_ADMIN] = "this needs the role admin",
        [CALLER_OPERATOR] = "this is for operators",
        [CALLER_SERVICE] = "this is the service's",
    };
    enum caller_role least = exchange->operation->least_role;
    if (least > CALLER_NOBODY && exchange->principal.role == CALLER_NOBODY) {
        exchange_refuse(exchange, REFUSE_UNAUTHORIZED,
                        "this needs a token: send Authorization: Bearer …");
    } else if (exchange->principal.role < least) {
        exchange_refuse(exchange, REFUSE_FORBIDDEN, needed[least]);
    }
}

void admission_check(struct exchange *exchange)
{
    find_address(exchange);
    count_fault(exchange, *exchange->at == STEP_ADMIT_NEWCOMER ? caller_identify_newcomer(exchange)
                                                               : caller_identify(exchange));
    if (!exchange->answer.status) {
        charge_caller(exchange);
    }
    if (!exchange->answer.status && !exchange->principal.key_digest[0]) {
        admission_check_rights(exchange);
    }
}

bool admission_accept_session(struct exchange *exchange, const char *session)
{
    count_fault(exchange, accept_session(exchange, session));
    return !exchange->answer.status;
}

void admission_refuse_entry(struct exchange *exchange)
{
    count_fault(exchange, accept_session(exchange, NULL));
}

bool admission_may_try(struct exchange *exchange, const char *account, bool is_known)
{
    char network[ADDRESS_TEXT_SIZE];
    limits_network(exchange->address, network);
    struct rate_state state = limits_look(exchange->admission->limits, RATE_FAILURE, network);
    if (!state.is_over && !is_known) {
        state = limits_charge(exchange->admission->limits, RATE_FAILURE, account);
    }
    if (state.is_over) {
        exchange->rate = state;
        refuse_as_too_often(exchange);
    }
    return !state.is_over;
}

void admission_limit_links(struct exchange *exchange)
{
    static const char prefix[] = "link ";
    char account[sizeof(prefix) + ADDRESS_TEXT_SIZE];
    (void)memcpy(account, prefix, sizeof(prefix));
    limits_network(exchange->address, account + sizeof(prefix) - 1);
    (void)!admission_may_try(exchange, account, false); /* that it may not has its answer */
}

bool admission_accept_key(struct exchange *exchange, const char *claims)
{
    struct principal known = {0};
    cv_auto(json_decref) json_t *object = claims ? json_loads(claims, 0, NULL) : NULL;
    enum token_fault fault =
        object ? key_source_accept(exchange->admission->keys, object, &known) : TOKEN_UNKNOWN_KEY;
    exchange->principal.key_digest[0] = '\0';
    if (fault == TOKEN_UNKNOWN_KEY) {
        exchange_refuse(exchange, REFUSE_UNAUTHORIZED,
                        "the API key is not valid, or you are signed out: sign in again");
    } else if (fault != TOKEN_GOOD) {
        exchange_refuse(exchange, REFUSE_FORBIDDEN,
                        "the key's role is not one that may use this API");
    }
    if (fault != TOKEN_GOOD) {
        count_fault(exchange, token_fault_name(fault));
        return false;
    }
    principal_deinit(&exchange->principal);
    exchange->principal = known;
    admission_check_rights(exchange);
    return !exchange->answer.status;
}

void admission_read_secrets(struct exchange *exchange)
{
    count_fault(exchange, read_secrets(exchange));
}
