#include "gateway/key_source.h"

#include "gateway/issuer.h"

enum {
    EVERY_MS = 5 * 60 * 1000, /* between two reads of the set */
    AGAIN_MS = 30 * 1000,     /* least time between two reads for tokens with unknown keys */
    RETRY_MS = 2 * 1000,      /* after a read that failed */
};

struct key_source {
    struct key_source_params params;
    pthread_rwlock_t lock; /* protects `keys` */
    struct token_keys *keys;

    struct cv_background background; /* with a URL; its mutex protects everything below */
    int64_t read_at_ms;              /* the last try; 0: none */
    bool is_wanted;                  /* a token has named an unknown key */
};

/* ---- reading the set --------------------------------------------------------------------------- */

/* Reads the set, and adds the keys of the file `own` (NULL: none). free() it. */
static int read_set(const struct key_source *source, const char *own, char **ret_set,
                    struct cv_error *error)
{
    cv_auto(json_decref) json_t *set = NULL;
    cv_auto(json_decref) json_t *others =
        own ? json_loads(own, JSON_REJECT_DUPLICATES, NULL) : NULL;
    CV_TRY(issuer_read(source->params.url, NULL, source->params.cancel, &set, error));
    json_t *list = json_object_get(set, "keys");
    json_t *more = json_object_get(others, "keys");
    bool is_good = json_is_array(list) && (!more || json_array_extend(list, more) == 0);
    *ret_set = is_good ? json_dumps(set, JSON_COMPACT) : NULL;
    return *ret_set ? 0 : cv_fail(error, CV_ERROR_CONFIGURATION, "it has no list \"keys\"");
}

static bool renew(struct key_source *source)
{
    cv_auto_free char *set = NULL;
    struct token_keys *keys = NULL;
    struct token_params params = source->params.tokens;
    struct cv_error error;
    int result = read_set(source, params.key_set, &set, &error);
    params.key_set = set;
    result = result ? result : token_keys_new(&params, &keys, &error);
    if (result != 0) {
        cv_log_error(&error, "the key set of CORTANA_JWKS_URL cannot be read, the keys stay");
        return false;
    }
    (void)pthread_rwlock_wrlock(&source->lock);
    struct token_keys *before = source->keys;
    source->keys = keys;
    (void)pthread_rwlock_unlock(&source->lock);
    token_keys_free(before);
    return true;
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
    for (bool is_good = true; wait_for_turn(source, is_good);) {
        is_good = renew(source);
    }
}

/* ---- beginning and end -------------------------------------------------------------------------- */

int key_source_open(const struct key_source_params *params, struct key_source **ret_source,
                    struct cv_error *error)
{
    cv_auto(key_source_close) struct key_source *source = calloc(1, sizeof(*source));
    CV_TRY_MEMORY(source && pthread_rwlock_init(&source->lock, NULL) == 0, error, "keys");
    source->params = *params;
    source->params.tokens.may_be_empty = params->url != NULL;
    struct cv_http_networks ignored;
    int result = params->url ? issuer_check(params->url, &ignored, error) : 0;
    CV_TRY(result ? cv_fail_context(error, result, "CORTANA_JWKS_URL") : 0);
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
