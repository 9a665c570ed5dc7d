#include "common/embed/endpoint.h"

#include "common/http/http.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

/* ---- what comes back ----------------------------------------------------------------------------- */

void cv_embeddings_deinit(struct cv_embeddings *embeddings)
{
    free(embeddings->values);
    *embeddings = (struct cv_embeddings){0};
}

/* The vector of text `index`. OpenAI's list may be in any order; each entry has the index of its
 * text. */
static const json_t *find_vector(const json_t *answer, size_t index)
{
    const json_t *plain = json_object_get(answer, "embeddings");
    if (json_is_array(plain)) {
        return json_array_get(plain, index);
    }
    const json_t *data = json_object_get(answer, "data");
    for (size_t i = 0; i < json_array_size(data); i++) {
        const json_t *item = json_array_get(data, i);
        const json_t *place = json_object_get(item, "index");
        if (json_is_integer(place) ? json_integer_value(place) == (json_int_t)index : i == index) {
            return json_object_get(item, "embedding");
        }
    }
    return NULL;
}

/* Reads the numbers of one vector and scales it to length 1. */
static int read_vector(const json_t *vector, float *values, size_t dimensions,
                       struct cv_error *error)
{
    double square = 0;
    for (size_t i = 0; i < dimensions; i++) {
        const json_t *number = json_array_get(vector, i);
        if (!json_is_number(number)) {
            return cv_fail(error, CV_ERROR_SERVER, "a vector holds something that is not a number");
        }
        double value = json_number_value(number);
        square += value * value;
    }
    double length = sqrt(square);
    if (!isfinite(length) || length <= 0) {
        return cv_fail(error, CV_ERROR_SERVER, "a vector has length 0");
    }
    for (size_t i = 0; i < dimensions; i++) {
        values[i] = (float)(json_number_value(json_array_get(vector, i)) / length);
    }
    return 0;
}

int cv_embed_read_answer(const char *body, size_t length, size_t count,
                         struct cv_embeddings *ret_embeddings, struct cv_error *error)
{
    json_error_t problem;
    cv_auto(json_decref) json_t *answer = json_loadb(body, length, 0, &problem);
    if (!answer) {
        return cv_fail(error, CV_ERROR_SERVER, "the embedding endpoint answers no JSON: %s",
                       problem.text);
    }
    size_t dimensions = json_array_size(find_vector(answer, 0));
    if (dimensions < 2 || dimensions > CV_EMBED_DIMENSIONS_MAX) {
        return cv_fail(error, CV_ERROR_SERVER,
                       "the embedding endpoint's first vector has %zu numbers", dimensions);
    }
    cv_auto(cv_embeddings_deinit) struct cv_embeddings found = {
        .values = calloc(count * dimensions, sizeof(float)),
        .count = count,
        .dimensions = dimensions,
    };
    if (!found.values) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %zu vectors", count);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *vector = find_vector(answer, i);
        if (json_array_size(vector) != dimensions) {
            return cv_fail(error, CV_ERROR_SERVER,
                           "the embedding endpoint gives %zu numbers for text %zu, %zu before it",
                           json_array_size(vector), i, dimensions);
        }
        int result = read_vector(vector, found.values + i * dimensions, dimensions, error);
        if (result) {
            return cv_fail_context(error, result, "text %zu", i);
        }
    }
    *ret_embeddings = found;
    found.values = NULL;
    return 0;
}

enum {
    ANSWER_MAX = 64 << 20, /* bytes */
    TIMEOUT_MS = 60000,
};

struct cv_embedder {
    struct cv_http_client *client;
    struct cv_http_endpoint endpoint;
};

static const char who[] = "the embedding endpoint";

/* ---- settings -------------------------------------------------------------------------------- */

uint16_t cv_embedder_port(void)
{
    return cv_http_port(cv_env("EMBED_URL", ""));
}

int cv_embedder_open(struct cv_embedder **ret_embedder, struct cv_error *error)
{
    cv_auto(cv_embedder_close) struct cv_embedder *embedder = calloc(1, sizeof(*embedder));
    CV_TRY_MEMORY(embedder, error, "an HTTP client");
    CV_TRY(cv_http_endpoint_read("EMBED_URL", "EMBED_API_KEY", &embedder->endpoint, error));
    CV_TRY(cv_http_client_open(&embedder->client, error));
    *ret_embedder = cv_take(embedder);
    return 0;
}

void cv_embedder_close(struct cv_embedder *embedder)
{
    if (embedder) {
        cv_http_client_close(embedder->client);
        cv_http_endpoint_deinit(&embedder->endpoint);
        free(embedder);
    }
}

/* ---- one request ----------------------------------------------------------------------------- */

/* Length of the longest beginning of a text that has at most CV_EMBED_TEXT_MAX bytes and ends with
 * a whole character. */
static size_t bounded_length(const char *text)
{
    size_t length = strnlen(text, CV_EMBED_TEXT_MAX + 1);
    if (length > CV_EMBED_TEXT_MAX) {
        length = CV_EMBED_TEXT_MAX;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) {
            length--;
        }
    }
    return length;
}

static int make_request(const char *model, const char *const *texts, size_t count, char **ret_body,
                        struct cv_error *error)
{
    cv_auto(json_decref) json_t *input = json_array();
    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(input, json_stringn(texts[i], bounded_length(texts[i]))) != 0) {
            return cv_fail(error, CV_ERROR_INTERNAL, "text %zu is not to be embedded", i);
        }
    }
    cv_auto(json_decref) json_t *request = json_pack("{s:s, s:O}", "model", model, "input", input);
    *ret_body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    return *ret_body ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request");
}

int cv_embed(struct cv_embedder *embedder, const char *model, const char *const *texts,
             size_t count, struct cv_cancel *cancel, struct cv_embeddings *ret_embeddings,
             struct cv_error *error)
{
    assert(count >= 1 && count <= CV_EMBED_BATCH);
    cv_auto_free char *body = NULL;
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {.status = 0};
    CV_TRY(make_request(model, texts, count, &body, error));
    const char *const headers[] = {"Content-Type: application/json",
                                   embedder->endpoint.authorization, NULL};
    const struct cv_http_request request = {
        .method = "POST",
        .url = embedder->endpoint.url,
        .headers = headers,
        .body = body,
        .body_length = strlen(body),
        .answer_max = ANSWER_MAX,
        .timeout_ms = TIMEOUT_MS,
        .allowed = &embedder->endpoint.allowed,
        .cancel = cancel,
    };
    int result = cv_http_send(embedder->client, &request, &answer, error);
    if (result) {
        return cv_fail_context(error, result, who);
    }
    if (answer.is_cut) {
        return cv_fail(error, CV_ERROR_SERVER,
                       "the embedding endpoint's answer is longer than %d MiB", ANSWER_MAX >> 20);
    }
    if (answer.status / 100 != 2) {
        int refusal = cv_http_refusal(answer.status, answer.body.data, answer.body.length, error);
        return cv_fail_context(error, refusal, "%s refuses model %s", who, model);
    }
    return cv_embed_read_answer(answer.body.data, answer.body.length, count, ret_embeddings, error);
}
