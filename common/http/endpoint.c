#include "common/http/http.h"

#include <curl/curl.h>
#include <jansson.h>
#include <string.h>

CV_DEFINE_CLEANUP(CURLU *, curl_url_cleanup)
CV_DEFINE_CLEANUP(char *, curl_free)

void cv_http_endpoint_deinit(struct cv_http_endpoint *endpoint)
{
    free(endpoint->authorization);
    *endpoint = (struct cv_http_endpoint){0};
}

static int check_url(const char *setting, const char *url, const char *key_setting,
                     struct cv_error *error)
{
    cv_auto(curl_url_cleanup) CURLU *parts = curl_url();
    cv_auto(curl_free) char *scheme = NULL;
    cv_auto(curl_free) char *user = NULL;
    bool good = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    if (!good) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s is not an http or https URL", setting);
    }
    return curl_url_get(parts, CURLUPART_USER, &user, 0) != CURLUE_OK
               ? 0
               : cv_fail(error, CV_ERROR_CONFIGURATION,
                         "%s holds a user's name: give the key as %s", setting, key_setting);
}

int cv_http_endpoint_read(const char *url_setting, const char *key_setting,
                          struct cv_http_endpoint *ret_endpoint, struct cv_error *error)
{
    cv_auto(cv_http_endpoint_deinit) struct cv_http_endpoint endpoint = {
        .url = cv_env(url_setting, NULL)};
    const char *key = cv_env(key_setting, NULL);
    if (!endpoint.url) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s is not set: the endpoint to ask",
                       url_setting);
    }
    CV_TRY(check_url(url_setting, endpoint.url, key_setting, error));
    CV_TRY(key ? cv_format(&endpoint.authorization, error, "Authorization: Bearer %s", key) : 0);
    bool is_everywhere = cv_http_networks_parse("::/0", &endpoint.allowed);
    CV_TRY_MEMORY(is_everywhere, error, "an endpoint");
    *ret_endpoint = endpoint;
    endpoint.authorization = NULL;
    return 0;
}

int cv_http_refusal(long status, const char *body, size_t length, struct cv_error *error)
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
    return cv_fail(error, type, "%ld %.*s", status, DETAIL_MAX, detail ? detail : "");
}
