/* A webhook's secret (the first line) and body (the rest): a secret that is none is refused without a word of it, and
 * a signature is "v1," and 44 characters of base64. */
#include "platform/webhook/sign.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cv_error error;
    char signature[WEBHOOK_SIGNATURE_SIZE];
    const uint8_t *end = memchr(data, '\n', size);
    size_t secret_length = end ? (size_t)(end - data) : size;
    cv_auto_free char *secret = strndup((const char *)data, secret_length);
    const char *body = (const char *)(end ? end + 1 : data + size);
    size_t length = end ? size - secret_length - 1 : 0;
    if (!secret) {
        return 0;
    }
    if (webhook_sign(secret, "msg_1", 1, body, length, signature, &error) == 0) {
        if (strlen(signature) != WEBHOOK_SIGNATURE_SIZE - 1 || strncmp(signature, "v1,", 3) != 0) {
            abort();
        }
    } else if (strlen(secret) > 16 && strstr(error.message, secret)) {
        abort();
    }
    return 0;
}
