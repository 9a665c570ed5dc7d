#include "common/store/store.h"

#include <openssl/evp.h>

int cv_sha256_new(struct cv_sha256 **ret_sha256, struct cv_error *error)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (!digest || EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(digest);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "cannot compute SHA-256");
    }
    *ret_sha256 = (struct cv_sha256 *)digest;
    return 0;
}

void cv_sha256_free(struct cv_sha256 *sha256)
{
    EVP_MD_CTX_free((EVP_MD_CTX *)sha256);
}

int cv_sha256_add(struct cv_sha256 *sha256, const void *data, size_t size, struct cv_error *error)
{
    return size == 0 || EVP_DigestUpdate((EVP_MD_CTX *)sha256, data, size) == 1
               ? 0
               : cv_fail(error, CV_ERROR_INTERNAL, "cannot compute SHA-256");
}

int cv_sha256_text(struct cv_sha256 *sha256, char text[CV_STORE_SHA256_SIZE],
                   struct cv_error *error)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (EVP_DigestFinal_ex((EVP_MD_CTX *)sha256, bytes, &length) != 1) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute SHA-256");
    }
    for (unsigned i = 0; i < length; i++) {
        (void)snprintf(text + (size_t)i * 2, 3, "%02x", bytes[i]);
    }
    return 0;
}
