#include "common/text/text.h"

#include <openssl/evp.h>
#include <string.h>

int cv_text_hash(const char *normalized, char ret_hash[CV_TEXT_HASH_SIZE], struct cv_error *error)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (EVP_Digest(normalized, strlen(normalized), digest, &length, EVP_sha256(), NULL) != 1) {
        return cv_fail(error, CV_ERROR_INTERNAL, "libcrypto refuses SHA-256");
    }
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < length; i++) {
        ret_hash[2 * i] = digits[digest[i] >> 4];
        ret_hash[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_hash[2 * length] = '\0';
    return 0;
}
