/* Tokens as strangers send them: none is good, because no input was signed with the keys; and what the claims say is
 * read for tokens that are signed here. */
#include "gateway/token.h"
#include "tests/fuzz/fuzz.h"

#include <openssl/hmac.h>
#include <string.h>

static const char secret[] = "a secret of the fuzzer that is long enough";
static const char key_set[] =
    "{\"keys\": [{\"kty\": \"EC\", \"crv\": \"P-256\", \"kid\": \"ec\","
    " \"x\": \"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
    " \"y\": \"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}"; /* RFC 7515, A.3 */

static void verify_signed(const struct token_keys *keys, const uint8_t *data, size_t size)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer token = CV_BUFFER_INIT;
    unsigned char signature[32];
    struct principal principal = {0};
    cv_buffer_text(&token, "eyJhbGciOiJIUzI1NiJ9."); /* {"alg":"HS256"} */
    cv_base64url(&token, data, size);
    if (token.failed || !HMAC(EVP_sha256(), secret, sizeof(secret) - 1, (unsigned char *)token.data,
                              token.length, signature, NULL)) {
        return;
    }
    cv_buffer_text(&token, ".");
    cv_base64url(&token, signature, sizeof(signature));
    enum token_fault fault =
        token.failed ? TOKEN_MALFORMED : token_verify(keys, token.data, 1700000000, &principal);
    if (fault == TOKEN_SIGNATURE ||
        (fault == TOKEN_GOOD && (!principal.claims || !principal.database_role))) {
        abort();
    }
    principal_deinit(&principal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct token_keys *keys;
    struct cv_error error;
    struct principal principal = {0};
    const struct token_params params = {.secret = secret,
                                        .key_set = key_set,
                                        .audience = "authenticated",
                                        .default_role = "editor"};
    if (!keys && token_keys_new(&params, &keys, &error) != 0) {
        abort();
    }
    cv_auto_free char *text = strndup((const char *)data, size);
    if (text && token_verify(keys, text, 1700000000, &principal) == TOKEN_GOOD) {
        abort();
    }
    verify_signed(keys, data, size);
    return 0;
}
