#include "common/embed/answer.h"

#include <assert.h>
#include <curl/curl.h>
#include <jansson.h>
#include <string.h>

enum {
    ANSWER_MAX = 64 << 20,
    CONNECT_TIMEOUT_MS = 10000,
    TIMEOUT_MS = 60000,
    TIMEOUT_MAX_MS = 3600000,
};

CV_DEFINE_CLEANUP(json_t *, json_decref)
CV_DEFINE_CLEANUP(struct curl_slist *, curl_slist_free_all)

struct cv_embedder {
    CURL *easy;
    const char *url; /* borrowed from the environment, as is the key */
    const char *api_key;
    int64_t timeout_ms;
};

struct exchange {
    struct cv_buffer body;
    struct cv_cancel *cancel;
    bool is_too_long;
};

static void exchange_deinit(struct exchange *exchange)
{
    cv_buffer_deinit(&exchange->body);
}
CV_DEFINE_CLEANUP_ADDRESS(struct exchange, exchange_deinit)

static int check_url(const char *url, struct cv_error *error)
{
    CURLU *parts = curl_url();
    char *scheme = NULL;
    char *user = NULL;
    bool good = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    bool has_user = good && curl_url_get(parts, CURLUPART_USER, &user, 0) == CURLUE_OK;
    curl_free(user);
    curl_free(scheme);
    curl_url_cleanup(parts);
    if (has_user) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "EMBED_URL holds a user's name: give the key as EMBED_API_KEY");
    }
    return good ? 0 : cv_fail(error, CV_ERROR_CONFIGURATION, "EMBED_URL is no http or https URL");
}

int cv_embedder_open(struct cv_embedder **ret_embedder, struct cv_error *error)
{
    const char *url = cv_env("EMBED_URL", NULL);
    if (!url) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "EMBED_URL is not set: the endpoint that embeds texts");
    }
    int result = check_url(url, error);
    if (result) {
        return result;
    }
    cv_auto(cv_embedder_close) struct cv_embedder *embedder = calloc(1, sizeof(*embedder));
    if (!embedder || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        !(embedder->easy = curl_easy_init())) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for an HTTP client");
    }
    embedder->url = url;
    embedder->api_key = cv_env("EMBED_API_KEY", NULL);
    result =
        cv_env_int("EMBED_TIMEOUT_MS", TIMEOUT_MS, 1, TIMEOUT_MAX_MS, &embedder->timeout_ms, error);
    if (result == 0) {
        *ret_embedder = cv_take(embedder);
    }
    return result;
}

void cv_embedder_close(struct cv_embedder *embedder)
{
    curl_easy_cleanup(embedder->easy);
    free(embedder);
}

/* ---- what curl calls ------------------------------------------------------------------------- */

static size_t take_body(char *data, size_t size, size_t count, void *opaque)
{
    struct exchange *exchange = opaque;
    size_t length = size * count;
    exchange->is_too_long = exchange->body.length + length > ANSWER_MAX;
    if (exchange->is_too_long) {
        return 0;
    }
    cv_buffer_append(&exchange->body, data, length);
    return exchange->body.failed ? 0 : length;
}

static int look_up(void *opaque, curl_off_t download_size, curl_off_t downloaded,
                   curl_off_t upload_size, curl_off_t uploaded)
{
    (void)download_size;
    (void)downloaded;
    (void)upload_size;
    (void)uploaded;
    const struct exchange *exchange = opaque;
    return exchange->cancel && cv_cancel_level(exchange->cancel) != CV_CANCEL_NONE;
}

/* ---- one request ----------------------------------------------------------------------------- */

/* Length of a text's beginning of at most CV_EMBED_TEXT_MAX bytes that ends with a whole character. */
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

static bool add_line(struct curl_slist **lines, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*lines, line);
    *lines = longer ? longer : *lines;
    return longer != NULL;
}

#define SET(option, value) good = good && curl_easy_setopt(easy, option, value) == CURLE_OK

static bool set_options(const struct cv_embedder *embedder, struct exchange *exchange,
                        struct curl_slist *lines, const char *body)
{
    CURL *easy = embedder->easy;
    bool good = true;
    SET(CURLOPT_URL, embedder->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L); /* the key is for the host that was named */
    SET(CURLOPT_POSTFIELDS, body);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    SET(CURLOPT_HTTPHEADER, lines);
    SET(CURLOPT_USERAGENT, "cortana-vision/" CV_VERSION);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_WRITEFUNCTION, take_body);
    SET(CURLOPT_WRITEDATA, exchange);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, look_up);
    SET(CURLOPT_XFERINFODATA, exchange);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    SET(CURLOPT_TIMEOUT_MS, (long)embedder->timeout_ms);
    return good;
}

static int judge(CURLcode code, const struct exchange *exchange, struct cv_error *error)
{
    if (exchange->body.failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the endpoint's answer");
    }
    if (exchange->is_too_long) {
        return cv_fail(error, CV_ERROR_SERVER,
                       "the embedding endpoint's answer is longer than %d MiB", ANSWER_MAX >> 20);
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) {
        return cv_fail(error, CV_ERROR_CANCELED, "stopped while texts were embedded");
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the embedding endpoint's certificate: %s",
                       curl_easy_strerror(code));
    }
    enum cv_error_type type =
        code == CURLE_OPERATION_TIMEDOUT ? CV_ERROR_TIMEOUT : CV_ERROR_CONNECTION;
    return code == CURLE_OK
               ? 0
               : cv_fail(error, type, "the embedding endpoint: %s", curl_easy_strerror(code));
}

int cv_embed(struct cv_embedder *embedder, const char *model, const char *const *texts,
             size_t count, struct cv_cancel *cancel, struct cv_embeddings *ret_embeddings,
             struct cv_error *error)
{
    assert(count >= 1 && count <= CV_EMBED_BATCH);
    cv_auto_free char *request = NULL;
    int result = make_request(model, texts, count, &request, error);
    if (result) {
        return result;
    }
    cv_auto(curl_slist_free_all) struct curl_slist *lines = NULL;
    cv_auto(cv_buffer_deinit) struct cv_buffer key = CV_BUFFER_INIT;
    bool good = add_line(&lines, "Content-Type: application/json");
    if (embedder->api_key) {
        cv_buffer_printf(&key, "Authorization: Bearer %s", embedder->api_key);
        good = good && !key.failed && add_line(&lines, key.data);
    }
    cv_auto(exchange_deinit) struct exchange exchange = {.body = CV_BUFFER_INIT, .cancel = cancel};
    if (!good || !set_options(embedder, &exchange, lines, request)) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request");
    }
    result = judge(curl_easy_perform(embedder->easy), &exchange, error);
    long status = 0;
    if (result || curl_easy_getinfo(embedder->easy, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK) {
        return result ? result : cv_fail(error, CV_ERROR_INTERNAL, "curl knows no status");
    }
    if (status / 100 != 2) {
        return cv_embed_read_refusal(status, exchange.body.data, exchange.body.length, model,
                                     error);
    }
    return cv_embed_read_answer(exchange.body.data, exchange.body.length, count, ret_embeddings,
                                error);
}
