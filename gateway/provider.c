#include "gateway/provider.h"

#include "gateway/caller.h"
#include "gateway/issuer.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <time.h>

enum {
    DIGEST_BYTES = 32, /* as many random ones has the cookie */
    HEX_SIZE = KEY_DIGEST_SIZE,
    COOKIE_SECONDS = 600, /* in which somebody signs in at the provider */
};
static const char cookie_name[] = "cortana-provider";
#define PLACE_OF_ANSWERS "/signed-in" /* of the page */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static const json_t *settings_of(const struct exchange *exchange)
{
    return json_object_get(exchange->entry, "provider_settings");
}

void provider_find(struct cv_db *db, struct exchange *exchange)
{
    struct cv_error error;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    const char *name = text_of(exchange->entry, "provider");
    if (cv_db_run(db, &rows, &error,
                  "SELECT api.find_provider(split_part($1, '.', 1))::text AS found",
                  name[0] ? name : text_of(exchange->entry, "state")) != 0) {
        exchange_refuse_sqlstate(exchange, cv_db_sqlstate(db), error.message, "");
        return;
    }
    const char *found = cv_db_text(rows, 0, "found");
    json_t *settings = found ? json_loads(found, 0, NULL) : NULL;
    if (!settings) {
        exchange_refuse_missing(exchange);
    } else if (json_object_set_new(exchange->entry, "provider_settings", settings) != 0) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
    }
}

/* ---- what binds an answer to the browser -------------------------------------------------------- */

/* A value that follows from the cookie, and from which the cookie does not follow. False: no memory. */
static bool derive(const char *what, const char *cookie, char hex[HEX_SIZE])
{
    char text[256];
    int length = snprintf(text, sizeof(text), "%s %s", what, cookie);
    return caller_digest(text, (size_t)length, hex);
}

/* RFC 7636, 4.2: S256. False: no memory. */
static bool challenge_of(const char *verifier, struct cv_buffer *challenge)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (EVP_Digest(verifier, strlen(verifier), digest, NULL, EVP_sha256(), NULL) != 1) {
        return false;
    }
    cv_base64url(challenge, digest, DIGEST_BYTES);
    return !challenge->failed;
}

static bool is_cookie_of(struct exchange *exchange, char cookie[HEX_SIZE])
{
    size_t length = 0;
    int count = 0;
    const char *found = caller_cookie(exchange, cookie_name, &length, &count);
    if (!found || count != 1 || length != HEX_SIZE - 1) {
        return false;
    }
    (void)memcpy(cookie, found, length);
    cookie[length] = '\0';
    return true;
}

/* ---- requests ------------------------------------------------------------------------------------ */

/* Reads where the provider's parts are (OpenID Connect Discovery 1.0). */
static int discover(const json_t *settings, json_t **ret_places, struct cv_error *error)
{
    cv_auto_free char *url = NULL;
    const char *issuer = text_of(settings, "issuer");
    size_t length = strlen(issuer);
    cv_auto(json_decref) json_t *places = NULL;
    CV_TRY(cv_format(&url, error, "%.*s/.well-known/openid-configuration",
                     (int)(length && issuer[length - 1] == '/' ? length - 1 : length), issuer));
    CV_TRY(issuer_read(url, NULL, NULL, &places, error));
    if (strcmp(text_of(places, "issuer"), issuer) != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s names another issuer", url);
    }
    *ret_places = cv_take(places);
    return 0;
}

static void refuse_provider(struct exchange *exchange, const struct cv_error *error)
{
    cv_log_error(error, "a provider of sign-ins");
    exchange_refuse(exchange, REFUSE_BUSY,
                    "the provider does not answer as it should: try again, or sign in otherwise");
}

/* ---- asking --------------------------------------------------------------------------------------- */

static void add_parameter(struct cv_buffer *text, const char *name, const char *value)
{
    cv_buffer_append(text, "&", text->length ? 1 : 0);
    cv_buffer_append(text, name, strlen(name));
    cv_buffer_append(text, "=", 1);
    cv_percent_encode(text, value, false);
}

static int fill_url(struct exchange *exchange, const json_t *places, const char *cookie,
                    struct cv_buffer *query, struct cv_error *error)
{
    char state[HEX_SIZE], nonce[HEX_SIZE], verifier[HEX_SIZE];
    cv_auto(cv_buffer_deinit) struct cv_buffer challenge = CV_BUFFER_INIT;
    const json_t *settings = settings_of(exchange);
    const char *endpoint = text_of(places, "authorization_endpoint");
    cv_auto_free char *redirect = NULL, *named = NULL, *url = NULL;
    bool is_made = derive("state", cookie, state) && derive("nonce", cookie, nonce) &&
                   derive("verifier", cookie, verifier) && challenge_of(verifier, &challenge);
    CV_TRY_MEMORY(is_made, error, "a request");
    CV_TRY(cv_format(&redirect, error, "%s" PLACE_OF_ANSWERS, exchange_header(exchange, "Origin")));
    CV_TRY(cv_format(&named, error, "%s.%s", text_of(settings, "name"), state));
    add_parameter(query, "response_type", "code");
    add_parameter(query, "scope", "openid email profile");
    add_parameter(query, "client_id", text_of(settings, "client_id"));
    add_parameter(query, "redirect_uri", redirect);
    add_parameter(query, "state", named);
    add_parameter(query, "nonce", nonce);
    add_parameter(query, "code_challenge", challenge.data);
    add_parameter(query, "code_challenge_method", "S256");
    CV_TRY_MEMORY(!query->failed, error, "a request");
    CV_TRY(
        cv_format(&url, error, "%s%s%s", endpoint, strchr(endpoint, '?') ? "&" : "?", query->data));
    cv_auto(json_decref) json_t *body = json_pack("{s:s}", "url", url);
    answer_set_body(&exchange->answer, body ? json_dumps(body, JSON_COMPACT) : NULL);
    exchange->answer.status = 200;
    return 0;
}

static int ask(struct exchange *exchange, struct cv_error *error)
{
    char cookie[HEX_SIZE];
    cv_auto(json_decref) json_t *places = NULL;
    cv_auto(cv_buffer_deinit) struct cv_buffer query = {0};
    CV_TRY(discover(settings_of(exchange), &places, error));
    cv_random_hex(DIGEST_BYTES, cookie);
    CV_TRY(fill_url(exchange, places, cookie, &query, error));
    caller_set_cookie(exchange, cookie_name, cookie, COOKIE_SECONDS);
    return 0;
}

int provider_ask(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    (void)store;
    if (!exchange_header(exchange, "Origin")) {
        exchange_refuse(exchange, REFUSE_FORBIDDEN, "this is for the page: Origin is missing");
    } else if (ask(exchange, error) != 0) {
        refuse_provider(exchange, error);
    }
    return 0;
}

/* ---- the answer ------------------------------------------------------------------------------------ */

static int fetch_token(struct exchange *exchange, const json_t *places, const char *cookie,
                       json_t **ret_answer, struct cv_error *error)
{
    char verifier[HEX_SIZE];
    const json_t *settings = settings_of(exchange);
    const char *secret = text_of(settings, "client_secret");
    cv_auto_free char *redirect = NULL;
    cv_auto(cv_buffer_deinit) struct cv_buffer form = {0};
    CV_TRY_MEMORY(derive("verifier", cookie, verifier), error, "a request");
    CV_TRY(cv_format(&redirect, error, "%s" PLACE_OF_ANSWERS, exchange_header(exchange, "Origin")));
    add_parameter(&form, "grant_type", "authorization_code");
    add_parameter(&form, "code", text_of(exchange->entry, "provider_code"));
    add_parameter(&form, "redirect_uri", redirect);
    add_parameter(&form, "client_id", text_of(settings, "client_id"));
    add_parameter(&form, "code_verifier", verifier);
    if (secret[0]) {
        add_parameter(&form, "client_secret", secret);
    }
    CV_TRY_MEMORY(!form.failed, error, "a request");
    return issuer_read(text_of(places, "token_endpoint"), form.data, NULL, ret_answer, error);
}

/* Checks the ID token (OpenID Connect Core 1.0, 3.1.3.7). */
static int read_token(const json_t *settings, const json_t *places, const char *token,
                      const char *cookie, json_t **ret_claims, struct cv_error *error)
{
    char nonce[HEX_SIZE];
    cv_auto(json_decref) json_t *set = NULL, *claims = NULL;
    cv_auto(token_keys_free) struct token_keys *keys = NULL;
    CV_TRY(issuer_read(text_of(places, "jwks_uri"), NULL, NULL, &set, error));
    cv_auto_free char *text = json_dumps(set, JSON_COMPACT);
    const struct token_params params = {.key_set = text,
                                        .issuer = text_of(settings, "issuer"),
                                        .audience = text_of(settings, "client_id")};
    CV_TRY_MEMORY(text && derive("nonce", cookie, nonce), error, "keys");
    CV_TRY(token_keys_new(&params, &keys, error));
    enum token_fault fault = token_read(keys, token, (int64_t)time(NULL), &claims);
    const char *party = text_of(claims, "azp");
    if (fault != TOKEN_GOOD || strcmp(text_of(claims, "nonce"), nonce) != 0 ||
        !text_of(claims, "sub")[0] || (party[0] && strcmp(party, params.audience) != 0)) {
        return cv_fail(error, CV_ERROR_AUTHENTICATION, "an ID token is refused: %s",
                       fault ? token_fault_name(fault) : "nonce, sub or azp");
    }
    *ret_claims = cv_take(claims);
    return 0;
}

static int enter(struct exchange *exchange, const char *cookie, struct cv_error *error)
{
    const json_t *settings = settings_of(exchange);
    cv_auto(json_decref) json_t *places = NULL, *answer = NULL, *claims = NULL;
    CV_TRY(discover(settings, &places, error));
    CV_TRY(fetch_token(exchange, places, cookie, &answer, error));
    CV_TRY(read_token(settings, places, text_of(answer, "id_token"), cookie, &claims, error));
    cv_auto(json_decref) json_t *identity = json_pack(
        "{s:s, s:s, s:O*, s:O*, s:O*}", "provider", text_of(settings, "name"), "subject",
        text_of(claims, "sub"), "email", json_object_get(claims, "email"), "email_verified",
        json_object_get(claims, "email_verified"), "name", json_object_get(claims, "name"));
    CV_TRY_MEMORY(identity && json_object_update(exchange->entry, identity) == 0, error,
                  "a person");
    (void)json_object_del(exchange->entry, "provider_settings");
    (void)json_object_del(exchange->entry, "provider_code");
    return 0;
}

int provider_take(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    char cookie[HEX_SIZE], state[HEX_SIZE];
    const char *given = strchr(text_of(exchange->entry, "state"), '.');
    (void)store;
    if (!is_cookie_of(exchange, cookie) || !derive("state", cookie, state) || !given ||
        strlen(given + 1) != strlen(state) || CRYPTO_memcmp(given + 1, state, strlen(state)) != 0 ||
        !exchange_header(exchange, "Origin")) {
        exchange_refuse(exchange, REFUSE_UNAUTHORIZED,
                        "this browser has not asked for that, or too long ago: sign in again");
    } else if (enter(exchange, cookie, error) != 0) {
        refuse_provider(exchange, error);
    }
    return 0;
}
