#include "gateway/grant.h"

#include "common/store/store.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

/* ---- secrets ---------------------------------------------------------------------------------- */

enum {
    VERSION = 2,
    SECRETS_MAX = 2,
    SECRET_MAX_BYTES = 128,
    END_BYTES = 6,
    ID_BYTES = 16,
    TIME_BYTES = 4,
    MAC_BYTES = 16,
    ID_AT = 2 + END_BYTES,
    PART_AT = ID_AT + ID_BYTES,
    SIGNED_BYTES = PART_AT + 2 * TIME_BYTES,
    GRANT_BYTES = SIGNED_BYTES + MAC_BYTES, /* 48 bytes are exactly 64 characters */
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

int64_t grant_end(int64_t now_s, int64_t expires_s)
{
    int64_t hour_s = (now_s / 3600 + 1) * 3600;
    int64_t end_s = hour_s + GRANT_SECONDS;
    int64_t last_s = expires_s > now_s ? expires_s : now_s;
    last_s = (last_s / 3600 + 1) * 3600 + GRANT_AFTER_SECONDS;
    return expires_s > 0 && last_s < end_s ? last_s : end_s;
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

static void write_number(uint64_t number, unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (unsigned char)(number >> (8 * (bytes - 1 - i)));
    }
}

static uint64_t read_number(const unsigned char *data, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++) {
        number = number * 256 + data[i];
    }
    return number;
}

int grant_write(const struct grant_keys *keys, const struct grant *grant, char text[GRANT_SIZE],
                struct cv_error *error)
{
    unsigned char data[GRANT_BYTES] = {VERSION, (unsigned char)grant->scopes};
    write_number((uint64_t)grant->until_s, data + 2, END_BYTES);
    write_number((uint64_t)grant->part.from_ms, data + PART_AT, TIME_BYTES);
    write_number((uint64_t)grant->part.to_ms, data + PART_AT + TIME_BYTES, TIME_BYTES);
    if (!cv_is_uuid(grant->id)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "a grant needs a UUID, not %.40s", grant->id);
    }
    read_id(grant->id, data + ID_AT);
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
    size_t bytes = 0;
    return length == GRANT_LETTERS && cv_base64url_decode(text, length, data, &bytes) &&
           bytes == GRANT_BYTES;
}

bool grant_read(const struct grant_keys *keys, const char *text, size_t length, int64_t now_s,
                struct grant *ret_grant)
{
    unsigned char data[GRANT_BYTES];
    unsigned char mac[MAC_BYTES];
    bool is_signed = false;
    if (!decode(text, length, data) || data[0] != VERSION) {
        return false;
    }
    for (size_t i = 0; i < keys->count; i++) {
        is_signed |=
            sign(keys, i, data, mac) && CRYPTO_memcmp(mac, data + SIGNED_BYTES, MAC_BYTES) == 0;
    }
    int64_t until_s = (int64_t)read_number(data + 2, END_BYTES);
    if (!is_signed || until_s <= now_s) {
        return false;
    }
    *ret_grant =
        (struct grant){.scopes = data[1],
                       .until_s = until_s,
                       .part = {(int64_t)read_number(data + PART_AT, TIME_BYTES),
                                (int64_t)read_number(data + PART_AT + TIME_BYTES, TIME_BYTES)}};
    write_id(data + ID_AT, ret_grant->id);
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
