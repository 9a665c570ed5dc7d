/* Texts to vectors, by an HTTP endpoint that speaks the API of OpenAI ("/v1/embeddings") or of Ollama
 * ("/api/embed"); both take {"model", "input": […]}, and either form of answer is understood.
 *
 * Environment:
 *   EMBED_URL         the endpoint, http or https; a payload never names one
 *   EMBED_MODEL       the model when none is named
 *   EMBED_API_KEY     sent as a bearer token
 *   EMBED_TIMEOUT_MS  one request (60000)
 *   EMBED_ALLOW       networks that the endpoint's name may lead to although they are not public; an
 *                     address or "localhost" in EMBED_URL itself needs no permission
 */
#pragma once

#include "common/base/base.h"

enum {
    CV_EMBED_BATCH = 50,             /* texts of one request at most */
    CV_EMBED_DIMENSIONS_MAX = 16000, /* as pgvector's */
    CV_EMBED_TEXT_MAX = 2000,        /* bytes of one text that are sent; the rest is left out */
};

struct cv_embedder;

/* Reads the environment. CV_ERROR_CONFIGURATION when EMBED_URL is missing or no http(s) URL, or has a
 * user's name in it. One thread at a time. */
CV_MUST_CHECK int cv_embedder_open(struct cv_embedder **ret_embedder, struct cv_error *error);
void cv_embedder_close(struct cv_embedder *embedder);
CV_DEFINE_CLEANUP(struct cv_embedder *, cv_embedder_close)

/* The TCP port of EMBED_URL; 0 when that is missing or wrong. */
uint16_t cv_embedder_port(void);

/* One vector a text, all of one length. */
struct cv_embeddings {
    float *values; /* count × dimensions, vector behind vector; each of length 1 */
    size_t count;
    size_t dimensions;
};
void cv_embeddings_deinit(struct cv_embeddings *embeddings);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_embeddings, cv_embeddings_deinit)

/* Embeds 1 to CV_EMBED_BATCH texts with `model` (1 to 100 characters). One request, no retries: the
 * caller's job is retried. CV_ERROR_AUTHENTICATION (401, 403) and CV_ERROR_CONFIGURATION (404 and other
 * refusals: an unknown model, most often) stay as they are; CV_ERROR_THROTTLED, CV_ERROR_SERVER,
 * CV_ERROR_CONNECTION and CV_ERROR_TIMEOUT may pass. An answer that is not one vector of finite numbers
 * a text, or larger than 64 MiB, is CV_ERROR_SERVER. `cancel` (may be NULL) ends the wait. */
CV_MUST_CHECK int cv_embed(struct cv_embedder *embedder, const char *model,
                           const char *const *texts, size_t count, struct cv_cancel *cancel,
                           struct cv_embeddings *ret_embeddings, struct cv_error *error);
