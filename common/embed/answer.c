#include "common/embed/answer.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

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
        return cv_fail(error, CV_ERROR_SERVER, "a vector has no length");
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

int cv_embed_read_refusal(long status, const char *body, size_t length, const char *model,
                          struct cv_error *error)
{
    enum { DETAIL_MAX = 200 };
    cv_auto(json_decref) json_t *answer = json_loadb(body ? body : "", length, 0, NULL);
    const json_t *reason = json_object_get(answer, "error");
    const char *detail =
        json_string_value(json_is_object(reason) ? json_object_get(reason, "message") : reason);
    enum cv_error_type type = CV_ERROR_CONFIGURATION;
    if (status == 401 || status == 403) {
        type = CV_ERROR_AUTHENTICATION;
    } else if (status == 429) {
        type = CV_ERROR_THROTTLED;
    } else if (status == 408 || status == 425 || status >= 500) {
        type = CV_ERROR_SERVER;
    }
    return cv_fail(error, type, "the embedding endpoint refuses model %s: %ld %.*s", model, status,
                   DETAIL_MAX, detail ? detail : "");
}
