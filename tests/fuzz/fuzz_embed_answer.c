/* What an embedding endpoint answers: any bytes. Vectors that are taken are of one length and finite. The first byte
 * chooses between an answer and a refusal, and how many vectors are expected. */
#include "common/embed/endpoint.h"
#include "common/http/http.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cv_error error;
    if (size == 0) {
        return 0;
    }
    const char *body = (const char *)data + 1;
    size_t count = data[0] % CV_EMBED_BATCH + 1;
    if (data[0] & 0x80) {
        if (cv_http_refusal(400 + data[0], body, size - 1, &error) >= 0) {
            abort();
        }
        return 0;
    }
    cv_auto(cv_embeddings_deinit) struct cv_embeddings found = {0};
    if (cv_embed_read_answer(body, size - 1, count, &found, &error) == 0) {
        if (found.count != count || found.dimensions == 0 ||
            found.dimensions > CV_EMBED_DIMENSIONS_MAX) {
            abort();
        }
        for (size_t i = 0; i < found.count * found.dimensions; i++) {
            if (!isfinite(found.values[i])) {
                abort();
            }
        }
    }
    return 0;
}
