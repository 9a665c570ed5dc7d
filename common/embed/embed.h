/* Embedding vectors of texts, from an HTTP endpoint with the API of OpenAI ("/v1/embeddings") or of
 * Ollama ("/api/embed"). Both take {"model", "input": […]}, and both forms of answers are accepted.
 *
 * Environment:
 *   EMBED_URL         the endpoint, http or https; a payload never names one
 *   EMBED_API_KEY     sent as a bearer token
 */
#pragma once

#include "common/base/base.h"

enum {
    CV_EMBED_BATCH = 50,             /* texts of one request at most */
    CV_EMBED_DIMENSIONS_MAX = 16000, /* as pgvector's */
    CV_EMBED_TEXT_MAX = 2000,        /* bytes of one text that are sent; the rest is left out */
};

struct cv_embedder;

/* Reads the environment. CV_ERROR_CONFIGURATION when EMBED_URL is missing, is not an http(s) URL,
 * or contains a user name. One thread at a time. */
CV_MUST_CHECK int cv_embedder_open(struct cv_embedder **ret_embedder, struct cv_error *error);
void cv_embedder_close(struct cv_embedder *embedder);
CV_DEFINE_CLEANUP(struct cv_embedder *, cv_embedder_close)

/* The TCP port of EMBED_URL; 0 when it is missing or invalid. */
uint16_t cv_embedder_port(void);

/* One vector per text, all with the same number of dimensions. */
struct cv_embeddings {
    float *values; /* count × dimensions, one vector after the other; each has length 1 */
    size_t count;
    size_t dimensions;
};
void cv_embeddings_deinit(struct cv_embeddings *embeddings);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_embeddings, cv_embeddings_deinit)

/* Embeds 1 to CV_EMBED_BATCH texts with `model` (1 to 100 characters). Sends one request without
 * retries, because the caller's job is retried. CV_ERROR_AUTHENTICATION (401, 403) and
 * CV_ERROR_CONFIGURATION (404 and other refusals, usually an unknown model) do not go away by
 * themselves; CV_ERROR_THROTTLED, CV_ERROR_SERVER, CV_ERROR_CONNECTION and CV_ERROR_TIMEOUT may.
 * An answer that is larger than 64 MiB, or does not have one vector of finite numbers per text, is
 * CV_ERROR_SERVER. `cancel` (may be NULL) ends the wait. */
CV_MUST_CHECK int cv_embed(struct cv_embedder *embedder, const char *model,
                           const char *const *texts, size_t count, struct cv_cancel *cancel,
                           struct cv_embeddings *ret_embeddings, struct cv_error *error);
