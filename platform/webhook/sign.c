#include "platform/webhook/sign.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

static const char prefix[] = "whsec_";

enum { SECRET_TEXT_MAX = (WEBHOOK_SECRET_BYTES_MAX + 2) / 3 * 4 };

/* Decodes a secret; returns its length in bytes, 0 when it is not valid. */
static size_t decode(const char *secret, unsigned char key[SECRET_TEXT_MAX])
{
    size_t start = strlen(prefix);
    if (strncmp(secret, prefix, start) != 0) {
        return 0;
    }
    const char *text = secret + start;
    size_t length = strlen(text);
    if (length == 0 || length % 4 != 0 || length > SECRET_TEXT_MAX) {
        return 0;
    }
    int bytes = EVP_DecodeBlock(key, (const unsigned char *)text, (int)length);
    size_t padding = text[length - 1] != '=' ? 0 : text[length - 2] != '=' ? 1 : 2;
    size_t count = bytes < 0 ? 0 : (size_t)bytes - padding;
    return count >= WEBHOOK_SECRET_BYTES_MIN && count <= WEBHOOK_SECRET_BYTES_MAX ? count : 0;
}

int webhook_sign(const char *secret, const char *id, int64_t timestamp_s, const char *body,
                 size_t length, char signature[WEBHOOK_SIGNATURE_SIZE], struct cv_error *error)
{
    unsigned char key[SECRET_TEXT_MAX];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_length = 0;
    size_t key_length = decode(secret, key);
    if (key_length == 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "a secret of the webhook is not \"whsec_\" and base64 of %d to %d bytes",
                       WEBHOOK_SECRET_BYTES_MIN, WEBHOOK_SECRET_BYTES_MAX);
    }
    cv_auto(cv_buffer_deinit) struct cv_buffer signed_text = CV_BUFFER_INIT;
    cv_buffer_printf(&signed_text, "%s.%lld.", id, (long long)timestamp_s);
    cv_buffer_append(&signed_text, body, length);
    if (signed_text.failed) {
        OPENSSL_cleanse(key, sizeof(key));
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to sign %zu bytes", length);
    }
    const unsigned char *done =
        HMAC(EVP_sha256(), key, (int)key_length, (const unsigned char *)signed_text.data,
             signed_text.length, digest, &digest_length);
    OPENSSL_cleanse(key, sizeof(key));
    if (!done) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute an HMAC");
    }
    memcpy(signature, "v1,", sizeof("v1,"));
    (void)EVP_EncodeBlock((unsigned char *)signature + 3, digest, (int)digest_length);
    return 0;
}
