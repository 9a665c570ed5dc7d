#include "gateway/grant.h"

#include "common/store/store.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

/* ---- secrets ---------------------------------------------------------------------------------- */

enum {
    SECRETS_MAX = 2,
    SECRET_MAX_BYTES = 128,
    MAC_BYTES = 16,
    SIGNED_LETTERS = GRANT_SIZE - 1 - 2 * MAC_BYTES,
};

struct grant_keys {
    size_t count;
    size_t lengths[SECRETS_MAX];
    unsigned char secrets[SECRETS_MAX][SECRET_MAX_BYTES];
};

static int add_secret(struct grant_keys *keys, const char *secret, size_t length,
                      struct cv_error *error)
{
    if (keys->count == SECRETS_MAX || length < GRANT_SECRET_MIN || length > SECRET_MAX_BYTES) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the file of CORTANA_GRANT_SECRET_FILE has one or two lines, each a secret "
                       "of %d to %d bytes",
                       GRANT_SECRET_MIN, SECRET_MAX_BYTES);
    }
    (void)memcpy(keys->secrets[keys->count], secret, length);
    keys->lengths[keys->count++] = length;
    return 0;
}

int grant_keys_new(const char *secrets, struct grant_keys **ret_keys, struct cv_error *error)
{
    cv_auto(grant_keys_free) struct grant_keys *keys = calloc(1, sizeof(*keys));
    CV_TRY_MEMORY(keys, error, "the secret of grants");
    if (!secrets) {
        keys->count = 1;
        keys->lengths[0] = GRANT_SECRET_MIN;
        arc4random_buf(keys->secrets[0], GRANT_SECRET_MIN);
    }
    while (secrets && *secrets) {
        size_t length = strcspn(secrets, "\r\n");
        CV_TRY(length > 0 ? add_secret(keys, secrets, length, error) : 0);
        secrets += length + strspn(secrets + length, "\r\n");
    }
    if (keys->count == 0) {
        return add_secret(keys, "", 0, error);
    }
    *ret_keys = cv_take(keys);
    return 0;
}

void grant_keys_free(struct grant_keys *keys)
{
    if (keys) {
        OPENSSL_cleanse(keys, sizeof(*keys));
        free(keys);
    }
}

int64_t grant_end(int64_t now_s, int64_t expires_s)
{
    int64_t hour_s = (now_s / 3600 + 1) * 3600;
    int64_t end_s = hour_s + GRANT_SECONDS;
    int64_t last_s = expires_s > now_s ? expires_s : now_s;
    last_s = (last_s / 3600 + 1) * 3600 + GRANT_AFTER_SECONDS;
    return expires_s > 0 && last_s < end_s ? last_s : end_s;
}

/* ---- text ---------------------------------------------------------------------------------------- */

/* Writes the signature of the letters before it. */
static bool sign(const struct grant_keys *keys, size_t key, const char *text,
                 char mac[2 * MAC_BYTES + 1])
{
    /* No other use of the secret signs this text, nor did an earlier form of grants. */
    static const char purpose[] = "cortana media grant 3 ";
    char whole[sizeof(purpose) + SIGNED_LETTERS];
    unsigned char digest[EVP_MAX_MD_SIZE];
    (void)snprintf(whole, sizeof(whole), "%s%.*s", purpose, SIGNED_LETTERS, text);
    if (!HMAC(EVP_sha256(), keys->secrets[key], (int)keys->lengths[key],
              (const unsigned char *)whole, strlen(whole), digest, NULL)) {
        return false;
    }
    cv_hex(digest, MAC_BYTES, mac);
    return true;
}

int grant_write(const struct grant_keys *keys, const struct grant *grant, char text[GRANT_SIZE],
                struct cv_error *error)
{
    if (!cv_is_uuid(grant->id)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "a grant needs a UUID, not %.40s", grant->id);
    }
    (void)snprintf(text, GRANT_SIZE, "%02x%012llx%08llx%08llx%s", grant->scopes,
                   (unsigned long long)grant->until_s, (unsigned long long)grant->part.from_ms,
                   (unsigned long long)grant->part.to_ms, grant->id);
    return sign(keys, 0, text, text + SIGNED_LETTERS)
               ? 0
               : cv_fail(error, CV_ERROR_INTERNAL, "cannot sign a grant");
}

bool grant_read(const struct grant_keys *keys, const char *text, size_t length, int64_t now_s,
                struct grant *ret_grant)
{
    char mac[2 * MAC_BYTES + 1];
    unsigned long long until_s = 0, from_ms = 0, to_ms = 0;
    struct grant grant = {0};
    bool is_signed = false;
    for (size_t i = 0; length == GRANT_SIZE - 1 && i < keys->count; i++) {
        is_signed |=
            sign(keys, i, text, mac) && CRYPTO_memcmp(mac, text + SIGNED_LETTERS, strlen(mac)) == 0;
    }
    if (!is_signed || sscanf(text, "%2x%12llx%8llx%8llx%36[0-9a-f-]", &grant.scopes, &until_s,
                             &from_ms, &to_ms, grant.id) != 5) {
        return false;
    }
    grant.until_s = (int64_t)until_s;
    grant.part = (struct media_part){(int64_t)from_ms, (int64_t)to_ms};
    *ret_grant = grant;
    return grant.until_s > now_s;
}

/* ---- which objects a grant covers ------------------------------------------------------------ */

/* Whether the key belongs to the video `id` in this place. */
static bool is_of_video(enum cv_object_place place, const char *key, const char *id)
{
    char video_id[CV_OBJECT_ID_SIZE];
    return cv_object_video(place, key, video_id) && strcmp(video_id, id) == 0;
}

/* videos/clips/{video}/{id}.{ext} */
static bool is_clip(const char *key, const char *id)
{
    char video_id[CV_OBJECT_ID_SIZE];
    const char *name = strrchr(key, '/');
    size_t length = strlen(id);
    return cv_object_video(CV_OBJECT_CLIPS, key, video_id) &&
           (size_t)(name - key) == strlen(CV_KEYS_CLIPS) + CV_OBJECT_ID_SIZE - 1 &&
           strncmp(name + 1, id, length) == 0 && name[1 + length] == '.';
}

/* The poster and the pictures of the seek bar
 * show other parts of a video, too. */
bool grant_covers(const struct grant *grant, const char *key)
{
    char video_id[CV_OBJECT_ID_SIZE];
    return ((grant->scopes & GRANT_PLAYBACK) && (is_of_video(CV_OBJECT_PROXY, key, grant->id) ||
                                                 (is_of_video(CV_OBJECT_THUMBS, key, grant->id) &&
                                                  !media_part_is_set(&grant->part)))) ||
           ((grant->scopes & GRANT_ORIGINAL) && cv_object_is_original(key, video_id) &&
            strcmp(video_id, grant->id) == 0) ||
           ((grant->scopes & GRANT_CLIP) && is_clip(key, grant->id));
}
