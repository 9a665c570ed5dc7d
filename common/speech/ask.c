#include "common/speech/speech.h"

#include <curl/curl.h>
#include <string.h>

enum { FIELDS_MAX = 16 }; /* members of the form besides the sound: ten are known */

/* Members of the form that the URL names. */
struct fields {
    char *texts[2 * FIELDS_MAX]; /* name, value, …; from curl */
    size_t count;                /* of texts */
};

static void fields_deinit(struct fields *fields)
{
    for (size_t i = 0; i < fields->count; i++) {
        curl_free(fields->texts[i]);
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct fields, fields_deinit)

static int read_endpoint(struct cv_http_endpoint *ret_endpoint, struct cv_error *error)
{
    return cv_http_endpoint_read("TRANSCRIBE_URL", "TRANSCRIBE_API_KEY", ret_endpoint, error);
}

/* Reads "name=value&name=value". */
static int read_fields(const char *query, struct fields *fields, struct cv_error *error)
{
    for (const char *at = query; *at;) {
        size_t length = strcspn(at, "&"), name = strcspn(at, "=&");
        if (fields->count == CV_COUNT(fields->texts) || name == 0 || name == length) {
            return cv_fail(error, CV_ERROR_CONFIGURATION,
                           "TRANSCRIBE_URL has something else behind '?' than name=value, at most "
                           "%d times",
                           FIELDS_MAX);
        }
        char *texts[] = {curl_easy_unescape(NULL, at, (int)name, NULL),
                         curl_easy_unescape(NULL, at + name + 1, (int)(length - name - 1), NULL)};
        for (size_t i = 0; i < CV_COUNT(texts); i++) {
            fields->texts[fields->count++] = texts[i];
        }
        CV_TRY_MEMORY(texts[0] && texts[1], error, "a form");
        at += length + (at[length] == '&');
    }
    return 0;
}

int cv_speech_check(struct cv_error *error)
{
    cv_auto(cv_http_endpoint_deinit) struct cv_http_endpoint endpoint = {0};
    cv_auto(fields_deinit) struct fields fields = {.count = 0};
    CV_TRY(read_endpoint(&endpoint, error));
    const char *query = strchr(endpoint.url, '?');
    return query ? read_fields(query + 1, &fields, error) : 0;
}

static int send_form(const struct cv_http_request *request, struct cv_http_answer *ret_answer,
                     struct cv_error *error)
{
    cv_auto(cv_http_client_close) struct cv_http_client *client = NULL;
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {.status = 0};
    CV_TRY(cv_http_client_open(&client, error));
    CV_TRY(cv_http_send(client, request, &answer, error));
    if (answer.is_cut) {
        return cv_fail(error, CV_ERROR_SERVER, "its answer is longer than %d MiB",
                       CV_SPEECH_ANSWER_MAX >> 20);
    }
    *ret_answer = answer;
    answer = (struct cv_http_answer){.status = 0};
    return 0;
}

int cv_speech_ask(const void *sound, size_t length, int64_t timeout_ms, struct cv_cancel *cancel,
                  struct cv_http_answer *ret_answer, struct cv_error *error)
{
    cv_auto(cv_http_endpoint_deinit) struct cv_http_endpoint endpoint = {0};
    cv_auto(fields_deinit) struct fields fields = {.count = 0};
    cv_auto_free char *url = NULL;
    static const char form[] = "verbose_json";
    CV_TRY(read_endpoint(&endpoint, error));
    const char *query = strchr(endpoint.url, '?');
    CV_TRY(query ? read_fields(query + 1, &fields, error) : 0);
    CV_TRY(cv_format(&url, error, "%.*s", (int)strcspn(endpoint.url, "?"), endpoint.url));
    struct cv_http_part parts[FIELDS_MAX + 2] = {
        {"file", sound, length, "sound.wav", "audio/wav"},
        {"response_format", form, sizeof(form) - 1, NULL, NULL},
    };
    size_t count = 2;
    for (size_t i = 0; i < fields.count; i += 2) {
        const char *value = fields.texts[i + 1];
        parts[count++] = (struct cv_http_part){fields.texts[i], value, strlen(value), NULL, NULL};
    }
    /* "Expect:" keeps curl from waiting a second for servers that do not know 100-continue. */
    const char *const headers[] = {"Expect:", endpoint.authorization, NULL};
    const struct cv_http_request request = {
        .method = "POST",
        .url = url,
        .headers = headers,
        .form = parts,
        .form_count = count,
        .answer_max = CV_SPEECH_ANSWER_MAX,
        .timeout_ms = timeout_ms,
        .ca_file = cv_env("CORTANA_CA_FILE", NULL),
        .allowed = &endpoint.allowed,
        .cancel = cancel,
    };
    return send_form(&request, ret_answer, error);
}
