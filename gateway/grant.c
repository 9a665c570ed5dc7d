#include "gateway/grant.h"

#include "common/store/store.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

enum {
    VERSION = 1,
    SECRETS_MAX = 2,
    SECRET_MAX_BYTES = 128,
    END_BYTES = 5,
    ID_BYTES = 16,
    MAC_BYTES = 16,
    SIGNED_BYTES = 2 + END_BYTES + ID_BYTES,
    GRANT_BYTES = SIGNED_BYTES + MAC_BYTES, /* 39 bytes are exactly 52 characters */
    GRANT_LETTERS = GRANT_SIZE - 1,
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

int64_t grant_end(int64_t now_s)
{
    return (now_s / 3600 + 1) * 3600 + GRANT_SECONDS;
}

/* ---- text ---------------------------------------------------------------------------------------- */

static bool sign(const struct grant_keys *keys, size_t key, const unsigned char *data,
                 unsigned char mac[MAC_BYTES])
{
    static const char purpose[] =
        "cortana media grant"; /* no other use of the secret signs this text */
    unsigned char text[sizeof(purpose) + SIGNED_BYTES];
    unsigned char digest[EVP_MAX_MD_SIZE];
    (void)memcpy(text, purpose, sizeof(purpose));
    (void)memcpy(text + sizeof(purpose), data, SIGNED_BYTES);
    if (!HMAC(EVP_sha256(), keys->secrets[key], (int)keys->lengths[key], text, sizeof(text), digest,
              NULL)) {
        return false;
    }
    (void)memcpy(mac, digest, MAC_BYTES);
    return true;
}

static void read_id(const char *text, unsigned char id[ID_BYTES])
{
    for (size_t i = 0, at = 0; i < ID_BYTES; i++, at += 2) {
        at += text[at] == '-';
        char pair[3] = {text[at], text[at + 1], '\0'};
        id[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
}

static void write_id(const unsigned char id[ID_BYTES], char text[37])
{
    size_t at = 0;
    for (size_t i = 0; i < ID_BYTES; i++) {
        at += (size_t)snprintf(text + at, 37 - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
    }
}

int grant_write(const struct grant_keys *keys, const struct grant *grant, char text[GRANT_SIZE],
                struct cv_error *error)
{
    unsigned char data[GRANT_BYTES] = {VERSION, (unsigned char)grant->scopes};
    for (size_t i = 0; i < END_BYTES; i++) {
        data[2 + i] = (unsigned char)((uint64_t)grant->until_s >> (8 * (END_BYTES - 1 - i)));
    }
    if (!cv_is_uuid(grant->id)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "a grant needs a UUID, not %.40s", grant->id);
    }
    read_id(grant->id, data + 2 + END_BYTES);
    if (!sign(keys, 0, data, data + SIGNED_BYTES)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot sign a grant");
    }
    (void)EVP_EncodeBlock((unsigned char *)text, data, GRANT_BYTES);
    for (char *letter = text; *letter; letter++) {
        *letter = *letter == '+' ? '-' : *letter == '/' ? '_' : *letter;
    }
    return 0;
}

static bool decode(const char *text, size_t length, unsigned char data[GRANT_BYTES])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char plain[GRANT_SIZE] = "";
    if (length != GRANT_LETTERS) {
        return false;
    }
    for (size_t i = 0; i < GRANT_LETTERS; i++) {
        if (!text[i] || !strchr(letters, text[i])) {
            return false;
        }
        plain[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
    }
    return EVP_DecodeBlock(data, (const unsigned char *)plain, GRANT_LETTERS) == GRANT_BYTES;
}

bool grant_read(const struct grant_keys *keys, const char *text, size_t length, int64_t now_s,
                struct grant *ret_grant)
{
    unsigned char data[GRANT_BYTES];
    unsigned char mac[MAC_BYTES];
    bool is_signed = false;
    int64_t until_s = 0;
    if (!decode(text, length, data) || data[0] != VERSION) {
        return false;
    }
    for (size_t i = 0; i < keys->count; i++) {
        is_signed |=
            sign(keys, i, data, mac) && CRYPTO_memcmp(mac, data + SIGNED_BYTES, MAC_BYTES) == 0;
    }
    for (size_t i = 0; i < END_BYTES; i++) {
        until_s = until_s * 256 + data[2 + i];
    }
    if (!is_signed || until_s <= now_s) {
        return false;
    }
    *ret_grant = (struct grant){.scopes = data[1], .until_s = until_s};
    write_id(data + 2 + END_BYTES, ret_grant->id);
    return true;
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

bool grant_covers(const struct grant *grant, const char *key)
{
    char video_id[CV_OBJECT_ID_SIZE];
    return ((grant->scopes & GRANT_PLAYBACK) && (is_of_video(CV_OBJECT_PROXY, key, grant->id) ||
                                                 is_of_video(CV_OBJECT_THUMBS, key, grant->id))) ||
           ((grant->scopes & GRANT_ORIGINAL) && cv_object_is_original(key, video_id) &&
            strcmp(video_id, grant->id) == 0) ||
           ((grant->scopes & GRANT_CLIP) && is_clip(key, grant->id));
}
