#include "gateway/token.h"

#include <cjose/cjose.h>
#include <math.h>
#include <string.h>

enum {
    KEYS_MAX = 32,
    TOKEN_MAX_BYTES = 4096,
    HEADER_MAX_BYTES = 1024, /* decoded */
    DEPTH_MAX = 8,
    SECRET_MIN_BYTES = 32, /* RFC 7518, 3.2: as long as the hash */
    RSA_MIN_BYTES = 256,   /* RFC 7518, 3.3: 2048 bits */
    ES256_BYTES = 64,      /* RFC 7518, 3.4 */
    HS256_BYTES = 32,
    LEEWAY_S = 30, /* allowed difference of clocks */
};
static const double LATEST_S = 1e11; /* the year 5138; later times are invalid */

struct key {
    const char *algorithm; /* static text */
    char *id;              /* NULL: none; then any `kid` fits */
    size_t signature_bytes;
    cjose_jwk_t *jwk;
};

struct token_keys {
    struct key keys[KEYS_MAX];
    size_t count;
    struct token_params params;
};

const char *token_fault_name(enum token_fault fault)
{
    static const char *const names[] = {"good",      "malformed", "algorithm", "key",
                                        "signature", "expired",   "early",     "issuer",
                                        "audience",  "subject",   "role",      "api_key"};
    return names[fault];
}

static void release_jwk(cjose_jwk_t *jwk)
{
    (void)cjose_jwk_release(jwk);
}
CV_DEFINE_CLEANUP(cjose_jwk_t *, release_jwk)

static void release_jws(cjose_jws_t *jws)
{
    cjose_jws_release(jws);
}
CV_DEFINE_CLEANUP(cjose_jws_t *, release_jws)

/* ---- keys -------------------------------------------------------------------------------------- */

void token_keys_free(struct token_keys *keys)
{
    if (!keys) {
        return;
    }
    for (size_t i = 0; i < keys->count; i++) {
        release_jwk(keys->keys[i].jwk);
        free(keys->keys[i].id);
    }
    free(keys);
}

static int add_key(struct token_keys *keys, const char *algorithm, const char *id,
                   size_t signature_bytes, cjose_jwk_t *jwk, struct cv_error *error)
{
    cv_auto_free char *copy = id ? strdup(id) : NULL;
    if (!jwk || (id && !copy)) {
        release_jwk(jwk);
        return cv_fail(error, CV_ERROR_CONFIGURATION, "a key for tokens (%s) cannot be used",
                       algorithm);
    }
    keys->keys[keys->count++] = (struct key){algorithm, cv_take(copy), signature_bytes, jwk};
    return 0;
}

static int add_secret(struct token_keys *keys, const char *secret, struct cv_error *error)
{
    cjose_err failure;
    if (strlen(secret) < SECRET_MIN_BYTES) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "CORTANA_JWT_SECRET has %zu bytes, and needs %d", strlen(secret),
                       SECRET_MIN_BYTES);
    }
    cjose_jwk_t *jwk = cjose_jwk_create_oct_spec((const uint8_t *)secret, strlen(secret), &failure);
    return add_key(keys, "HS256", NULL, HS256_BYTES, jwk, error);
}

/* Imports a key into cjose: only its public members are passed on. */
static cjose_jwk_t *import_public(const json_t *key, const char *const *members)
{
    cjose_err failure;
    cv_auto(json_decref) json_t *bare = json_object();
    for (; bare && *members; members++) {
        json_t *value = json_object_get(key, *members);
        if (!json_is_string(value) || json_object_set(bare, *members, value) != 0) {
            return NULL;
        }
    }
    cv_auto_free char *text = bare ? json_dumps(bare, JSON_COMPACT) : NULL;
    return text ? cjose_jwk_import(text, strlen(text), &failure) : NULL;
}

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* The size of an RSA modulus without leading zeros, bytes; 0: unreadable. */
static size_t modulus_bytes(const json_t *key)
{
    const char *text = member(key, "n");
    size_t length = strlen(text);
    cv_auto_free unsigned char *bytes = malloc(length + 1);
    if (!bytes || !cv_base64url_decode(text, length, bytes, &length)) {
        return 0;
    }
    size_t zeros = 0;
    while (zeros < length && bytes[zeros] == 0) {
        zeros++;
    }
    return length - zeros;
}

/* Adds a public key. One of another purpose or kind is ignored, as RFC 7517, 5 requires. */
static int add_public_key(struct token_keys *keys, const json_t *key, struct cv_error *error)
{
    static const char *const rsa[] = {"kty", "n", "e", NULL};
    static const char *const ec[] = {"kty", "crv", "x", "y", NULL};
    const char *kty = member(key, "kty");
    const char *algorithm = member(key, "alg");
    const char *id = json_string_value(json_object_get(key, "kid"));
    if (member(key, "use")[0] && strcmp(member(key, "use"), "sig") != 0) {
        return 0;
    }
    if (strcmp(kty, "RSA") == 0 && (!algorithm[0] || strcmp(algorithm, "RS256") == 0)) {
        size_t bytes = modulus_bytes(key);
        if (bytes < RSA_MIN_BYTES) {
            return cv_fail(error, CV_ERROR_CONFIGURATION,
                           "an RSA key for tokens has %zu bits, and needs %d", bytes * 8,
                           RSA_MIN_BYTES * 8);
        }
        return add_key(keys, "RS256", id, bytes, import_public(key, rsa), error);
    }
    if (strcmp(kty, "EC") == 0 && strcmp(member(key, "crv"), "P-256") == 0 &&
        (!algorithm[0] || strcmp(algorithm, "ES256") == 0)) {
        return add_key(keys, "ES256", id, ES256_BYTES, import_public(key, ec), error);
    }
    return 0;
}

static int add_key_set(struct token_keys *keys, const char *text, struct cv_error *error)
{
    json_error_t failure;
    cv_auto(json_decref) json_t *set = json_loads(text, JSON_REJECT_DUPLICATES, &failure);
    json_t *list = json_object_get(set, "keys");
    size_t i;
    json_t *key;
    if (!json_is_array(list)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the JSON Web Key Set is unreadable: %s",
                       set ? "it has no list \"keys\"" : failure.text);
    }
    json_array_foreach(list, i, key)
    {
        if (keys->count == KEYS_MAX) {
            return cv_fail(error, CV_ERROR_CONFIGURATION, "more than %d keys for tokens", KEYS_MAX);
        }
        CV_TRY(add_public_key(keys, key, error));
    }
    return 0;
}

int token_keys_new(const struct token_params *params, struct token_keys **ret_keys,
                   struct cv_error *error)
{
    cv_auto(token_keys_free) struct token_keys *keys = calloc(1, sizeof(*keys));
    CV_TRY_MEMORY(keys, error, "keys");
    keys->params = *params;
    CV_TRY(params->secret ? add_secret(keys, params->secret, error) : 0);
    CV_TRY(params->key_set ? add_key_set(keys, params->key_set, error) : 0);
    if (keys->count == 0 && !params->may_be_empty) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "nothing to check tokens with: set CORTANA_JWT_SECRET, CORTANA_JWKS_FILE or "
                       "CORTANA_JWKS_URL");
    }
    *ret_keys = cv_take(keys);
    return 0;
}

/* ---- a token's parts --------------------------------------------------------------------------- */

struct parts {
    json_t *header;
    json_t *claims;
    size_t signature_bytes;
};

static void parts_deinit(struct parts *parts)
{
    json_decref(parts->header);
    json_decref(parts->claims);
}
CV_DEFINE_CLEANUP_ADDRESS(struct parts, parts_deinit)

static json_t *parse(const char *text, size_t length, size_t most)
{
    unsigned char bytes[TOKEN_MAX_BYTES];
    size_t decoded = 0;
    if (!cv_base64url_decode(text, length, bytes, &decoded) || decoded > most ||
        !cv_json_is_shallow((char *)bytes, decoded, DEPTH_MAX)) {
        return NULL;
    }
    cv_auto(json_decref) json_t *value =
        json_loadb((char *)bytes, decoded, JSON_REJECT_DUPLICATES, NULL);
    return json_is_object(value) ? cv_take(value) : NULL;
}

static bool split(const char *token, struct parts *parts)
{
    unsigned char signature[TOKEN_MAX_BYTES];
    const char *first = strchr(token, '.');
    const char *second = first ? strchr(first + 1, '.') : NULL;
    if (!second || strchr(second + 1, '.') || strlen(token) > TOKEN_MAX_BYTES) {
        return false;
    }
    parts->header = parse(token, (size_t)(first - token), HEADER_MAX_BYTES);
    parts->claims = parse(first + 1, (size_t)(second - first - 1), TOKEN_MAX_BYTES);
    return parts->header && parts->claims &&
           cv_base64url_decode(second + 1, strlen(second + 1), signature, &parts->signature_bytes);
}

/* ---- signature --------------------------------------------------------------------------------- */

static bool may_be_key(const struct key *key, const char *algorithm, const json_t *id)
{
    return strcmp(key->algorithm, algorithm) == 0 &&
           (!id || !key->id || (json_is_string(id) && strcmp(json_string_value(id), key->id) == 0));
}

static bool is_signed_by(const struct key *key, const char *token, const struct parts *parts)
{
    cjose_err failure;
    if (parts->signature_bytes != key->signature_bytes) {
        return false;
    }
    cv_auto(release_jws) cjose_jws_t *jws = cjose_jws_import(token, strlen(token), &failure);
    return jws && cjose_jws_verify(jws, key->jwk, &failure);
}

static enum token_fault check_signature(const struct token_keys *keys, const char *token,
                                        const struct parts *parts)
{
    const char *algorithm = member(parts->header, "alg");
    const json_t *id = json_object_get(parts->header, "kid");
    const json_t *type = json_object_get(parts->header, "typ");
    enum token_fault fault = TOKEN_ALGORITHM;
    if (json_object_get(parts->header, "crit") || json_object_get(parts->header, "b64") ||
        (id && !json_is_string(id)) ||
        (type && strcasecmp(member(parts->header, "typ"), "JWT") != 0 &&
         strcasecmp(member(parts->header, "typ"), "at+jwt") != 0)) {
        return TOKEN_MALFORMED;
    }
    for (size_t i = 0; i < keys->count; i++) {
        const struct key *key = &keys->keys[i];
        if (!may_be_key(key, algorithm, id)) {
            fault = fault == TOKEN_ALGORITHM && strcmp(key->algorithm, algorithm) == 0 ? TOKEN_KEY
                                                                                       : fault;
        } else if (is_signed_by(key, token, parts)) {
            return TOKEN_GOOD;
        } else {
            fault = TOKEN_SIGNATURE;
        }
    }
    return fault;
}

/* ---- claims ------------------------------------------------------------------------------------ */

/* Reads a NumericDate; false if it is invalid. `fallback` is used if it is missing. */
static bool read_time(const json_t *claims, const char *name, double fallback, double *ret_seconds)
{
    const json_t *value = json_object_get(claims, name);
    *ret_seconds = value ? json_number_value(value) : fallback;
    return !value || (json_is_number(value) && isfinite(*ret_seconds) && *ret_seconds >= 0 &&
                      *ret_seconds < LATEST_S);
}

static enum token_fault check_times(const json_t *claims, int64_t now_s)
{
    double now = (double)now_s;
    double expires = 0;
    double not_before = 0;
    double issued = 0;
    if (!json_object_get(claims, "exp") || !read_time(claims, "exp", 0, &expires) ||
        expires + LEEWAY_S <= now) {
        return TOKEN_EXPIRED;
    }
    if (!read_time(claims, "nbf", 0, &not_before) || !read_time(claims, "iat", 0, &issued) ||
        not_before - LEEWAY_S > now || issued - LEEWAY_S > now) {
        return TOKEN_EARLY;
    }
    return TOKEN_GOOD;
}

static bool is_for(const json_t *audience, const char *wanted)
{
    size_t i;
    json_t *one;
    if (json_is_string(audience)) {
        return strcmp(json_string_value(audience), wanted) == 0;
    }
    json_array_foreach(audience, i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), wanted) == 0) {
            return true;
        }
    }
    return false;
}

static const struct {
    const char *name; /* value of app_metadata.cortana_role */
    enum caller_role role;
    const char *database_role;
} users_roles[] = {{"viewer", CALLER_VIEWER, "authenticated"},
                   {"editor", CALLER_EDITOR, "cortana_app"},
                   {"admin", CALLER_ADMIN, "cortana_app"},
                   {"operator", CALLER_OPERATOR, "service_role"}};

/* Sets both roles; false: there is none. user_metadata is ignored, because users can write it. */
static bool choose_role(const struct token_keys *keys, const json_t *claims,
                        struct principal *principal)
{
    const char *role = member(claims, "role");
    const json_t *own = json_object_get(json_object_get(claims, "app_metadata"), "cortana_role");
    const char *within = own ? json_string_value(own) : keys->params.default_role;
    if (strcmp(role, "anon") == 0) {
        principal->database_role = "anon";
    } else if (strcmp(role, "service_role") == 0) {
        principal->database_role = "service_role";
        principal->role = CALLER_SERVICE;
    }
    for (size_t i = 0; strcmp(role, "authenticated") == 0 && within && i < CV_COUNT(users_roles);
         i++) {
        if (strcmp(users_roles[i].name, within) == 0) {
            principal->role = users_roles[i].role;
            principal->database_role = users_roles[i].database_role;
        }
    }
    return principal->database_role &&
           !(keys->params.is_without_service && principal->role >= CALLER_OPERATOR);
}

enum token_fault principal_make(const struct token_keys *keys, const json_t *claims,
                                struct principal *ret_principal)
{
    struct principal made = {0};
    const json_t *subject = json_object_get(claims, "sub");
    const char *key = member(claims, "key_id");
    if (!choose_role(keys, claims, &made)) {
        return TOKEN_ROLE;
    }
    /* Service keys belong to no user. */
    bool is_a_users = made.role != CALLER_NOBODY && made.role != CALLER_SERVICE;
    if (subject ? !json_is_string(subject) || !cv_is_uuid(json_string_value(subject))
                : is_a_users) {
        return TOKEN_SUBJECT;
    }
    (void)snprintf(made.name, sizeof(made.name), "%s%s",
                   key[0]                        ? "key:"
                   : made.role == CALLER_SERVICE ? "service"
                   : subject                     ? "user:"
                                                 : "nobody",
                   key[0]                                    ? key
                   : made.role == CALLER_SERVICE || !subject ? ""
                                                             : json_string_value(subject));
    made.expires_s = (int64_t)json_number_value(json_object_get(claims, "exp"));
    made.claims = json_dumps(claims, JSON_COMPACT);
    if (!made.claims) {
        return TOKEN_MALFORMED;
    }
    *ret_principal = made;
    return TOKEN_GOOD;
}

static enum token_fault check_claims(const struct token_keys *keys, const json_t *claims,
                                     int64_t now_s)
{
    enum token_fault fault = check_times(claims, now_s);
    if (fault != TOKEN_GOOD) {
        return fault;
    }
    if (keys->params.issuer && strcmp(member(claims, "iss"), keys->params.issuer) != 0) {
        return TOKEN_ISSUER;
    }
    return is_for(json_object_get(claims, "aud"), keys->params.audience) ? TOKEN_GOOD
                                                                         : TOKEN_AUDIENCE;
}

void principal_deinit(struct principal *principal)
{
    free(principal->claims);
    *principal = (struct principal){0};
}

enum token_fault token_read(const struct token_keys *keys, const char *token, int64_t now_s,
                            json_t **ret_claims)
{
    cv_auto(parts_deinit) struct parts parts = {0};
    if (!split(token, &parts)) {
        return TOKEN_MALFORMED;
    }
    enum token_fault fault = check_signature(keys, token, &parts);
    fault = fault ? fault : check_claims(keys, parts.claims, now_s);
    *ret_claims = fault ? NULL : cv_take(parts.claims);
    return fault;
}

enum token_fault token_verify(const struct token_keys *keys, const char *token, int64_t now_s,
                              struct principal *ret_principal)
{
    cv_auto(json_decref) json_t *claims = NULL;
    enum token_fault fault = token_read(keys, token, now_s, &claims);
    if (fault != TOKEN_GOOD) {
        return fault;
    }
    /* A token never counts as an API key or a session, whatever its issuer has put into it. */
    (void)json_object_del(claims, "key_id");
    (void)json_object_del(claims, "session");
    return principal_make(keys, claims, ret_principal);
}
