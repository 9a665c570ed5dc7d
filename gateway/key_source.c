#include "gateway/key_source.h"

#include <string.h>

enum {
    EVERY_MS = 5 * 60 * 1000,   /* between two reads of the set */
    AGAIN_MS = 30 * 1000,       /* least time between two reads for tokens with unknown keys */
    RETRY_MS = 2 * 1000,        /* after a read that failed */
    READ_MS = 5 * 1000,         /* time limit of a read */
    SET_MAX_BYTES = 256 * 1024, /* size of a set; those of large issuers have some 4 KiB */
};
static const char allow_setting[] = "CORTANA_JWKS_ALLOW";

struct key_source {
    struct key_source_params params;
    struct cv_http_networks allowed;
    pthread_rwlock_t lock; /* protects `keys` */
    struct token_keys *keys;

    struct cv_background background; /* with a URL; its mutex protects everything below */
    int64_t read_at_ms;              /* the last try; 0: none */
    bool is_wanted;                  /* a token has named an unknown key */
};

/* ---- reading the set --------------------------------------------------------------------------- */

/* Joins the keys of the file and those of the URL in one set. */
static char *join_sets(const char *first, const char *second)
{
    cv_auto(json_decref) json_t *made = json_loads(second, JSON_REJECT_DUPLICATES, NULL);
    cv_auto(json_decref) json_t *own =
        first ? json_loads(first, JSON_REJECT_DUPLICATES, NULL) : NULL;
    json_t *list = json_object_get(made, "keys");
    json_t *others = json_object_get(own, "keys");
    if (!json_is_array(list) || (others && json_array_extend(list, others) != 0)) {
        return NULL;
    }
    return json_dumps(made, JSON_COMPACT);
}

static int read_set(const struct key_source *source, struct cv_http_client *client, char **ret_set,
                    struct cv_error *error)
{
    static const char *const headers[] = {"Accept: application/jwk-set+json, application/json",
                                          NULL};
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {0};
    const struct cv_http_request request = {.url = source->params.url,
                                            .method = "GET",
                                            .headers = headers,
                                            .answer_max = SET_MAX_BYTES,
                                            .timeout_ms = READ_MS,
                                            .ca_file = source->params.ca_file,
                                            .allowed = &source->allowed,
                                            .allow_setting = allow_setting,
                                            .cancel = source->params.cancel};
    CV_TRY(cv_http_send(client, &request, &answer, error));
    if (answer.status != 200 || answer.is_cut || !answer.body.data) {
        return cv_fail(error, CV_ERROR_CONNECTION, "it was answered %ld%s", answer.status,
                       answer.is_cut ? ", and is longer than 256 KiB" : "");
    }
    *ret_set = join_sets(source->params.tokens.key_set, answer.body.data);
    return *ret_set ? 0 : cv_fail(error, CV_ERROR_CONFIGURATION, "it has no list \"keys\"");
}

static void renew(struct key_source *source, struct cv_http_client *client, bool *is_good)
{
    cv_auto_free char *set = NULL;
    struct token_keys *keys = NULL;
    struct token_params params = source->params.tokens;
    struct cv_error error;
    int result = read_set(source, client, &set, &error);
    params.key_set = set;
    result = result ? result : token_keys_new(&params, &keys, &error);
    if (result != 0) {
        cv_log_error(&error, "the key set of CORTANA_JWKS_URL cannot be read, the keys stay");
        *is_good = false;
        return;
    }
    (void)pthread_rwlock_wrlock(&source->lock);
    struct token_keys *before = source->keys;
    source->keys = keys;
    (void)pthread_rwlock_unlock(&source->lock);
    token_keys_free(before);
    *is_good = true;
}

/* Waits until it is time to read the set; false: stop. */
static bool wait_for_turn(struct key_source *source, bool is_good)
{
    CV_LOCK(&source->background.mutex);
    for (;;) {
        int64_t now = cv_monotonic_ms();
        int64_t wait_ms = !is_good ? RETRY_MS : source->is_wanted ? AGAIN_MS : EVERY_MS;
        int64_t due = source->read_at_ms ? source->read_at_ms + wait_ms : now;
        if (due <= now || !cv_background_wait(&source->background, due)) {
            break;
        }
    }
    source->read_at_ms = cv_monotonic_ms();
    source->is_wanted = false;
    return !source->background.is_stopping;
}

static void run_thread(void *opaque)
{
    struct key_source *source = opaque;
    cv_auto(cv_http_client_close) struct cv_http_client *client = NULL;
    struct cv_error error;
    bool is_good = true;
    if (cv_http_client_open(&client, &error) != 0) {
        cv_log_error(&error, "the key set of CORTANA_JWKS_URL is not read");
        return;
    }
    while (wait_for_turn(source, is_good)) {
        renew(source, client, &is_good);
    }
}

/* ---- beginning and end -------------------------------------------------------------------------- */

/* Requires TLS: keys that are sent over a network unencrypted could be replaced. */
static int check_url(struct key_source *source, struct cv_error *error)
{
    static const char *const own[] = {"http://127.0.0.1:", "http://localhost:", "http://[::1]:"};
    bool is_own = false;
    for (size_t i = 0; i < CV_COUNT(own); i++) {
        is_own = is_own || strncmp(source->params.url, own[i], strlen(own[i])) == 0;
    }
    if (!cv_http_port(source->params.url) ||
        (!is_own && strncmp(source->params.url, "https://", 8) != 0)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "CORTANA_JWKS_URL is %s, but must begin with https://, or be on this "
                       "machine: http://127.0.0.1:PORT/…",
                       source->params.url);
    }
    if (!cv_http_networks_parse(source->params.allowed, &source->allowed) ||
        (is_own && !cv_http_networks_add_host(&source->allowed, "localhost"))) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "%s must be networks like 10.0.0.0/8,fd00::/8", allow_setting);
    }
    return 0;
}

int key_source_open(const struct key_source_params *params, struct key_source **ret_source,
                    struct cv_error *error)
{
    cv_auto(key_source_close) struct key_source *source = calloc(1, sizeof(*source));
    CV_TRY_MEMORY(source && pthread_rwlock_init(&source->lock, NULL) == 0, error, "keys");
    source->params = *params;
    source->params.tokens.may_be_empty = params->url != NULL;
    CV_TRY(params->url ? check_url(source, error) : 0);
    CV_TRY(token_keys_new(&source->params.tokens, &source->keys, error));
    CV_TRY(params->url ? cv_background_start(&source->background, run_thread, source, error) : 0);
    *ret_source = cv_take(source);
    return 0;
}

void key_source_close(struct key_source *source)
{
    if (!source) {
        return;
    }
    cv_background_stop(&source->background, NULL, 0);
    token_keys_free(source->keys);
    (void)pthread_rwlock_destroy(&source->lock);
    free(source);
}

/* ---- checking tokens ------------------------------------------------------------------------- */

static void ask_for_keys(struct key_source *source)
{
    CV_LOCK(&source->background.mutex);
    source->is_wanted = true;
    cv_background_wake(&source->background);
}

enum token_fault key_source_verify(struct key_source *source, const char *token, int64_t now_s,
                                   struct principal *ret_principal)
{
    (void)pthread_rwlock_rdlock(&source->lock);
    enum token_fault fault = token_verify(source->keys, token, now_s, ret_principal);
    (void)pthread_rwlock_unlock(&source->lock);
    if (source->background.is_started && (fault == TOKEN_KEY || fault == TOKEN_ALGORITHM)) {
        ask_for_keys(source);
    }
    return fault;
}

enum token_fault key_source_accept(struct key_source *source, const json_t *claims,
                                   struct principal *ret_principal)
{
    (void)pthread_rwlock_rdlock(&source->lock);
    enum token_fault fault = principal_make(source->keys, claims, ret_principal);
    (void)pthread_rwlock_unlock(&source->lock);
    return fault;
}
