#include "gateway/issuer.h"

#include <string.h>

enum {
    READ_MS = 5 * 1000,
    ANSWER_MAX_BYTES = 256 * 1024, /* key sets of large issuers have some 4 KiB */
};

static const char allow_setting[] = "CORTANA_JWKS_ALLOW";

int issuer_check(const char *url, struct cv_http_networks *ret_networks, struct cv_error *error)
{
    static const char *const own[] = {"http://127.0.0.1:", "http://localhost:", "http://[::1]:"};
    bool is_own = false;
    for (size_t i = 0; i < CV_COUNT(own); i++) {
        is_own = is_own || strncmp(url, own[i], strlen(own[i])) == 0;
    }
    if (!cv_http_port(url) || (!is_own && strncmp(url, "https://", 8) != 0)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "'%s' must begin with https://, or be on this machine: "
                       "http://127.0.0.1:PORT/…",
                       url);
    }
    if (!cv_http_networks_parse(cv_env(allow_setting, ""), ret_networks) ||
        (is_own && !cv_http_networks_add_host(ret_networks, "localhost"))) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "%s must be networks like 10.0.0.0/8,fd00::/8", allow_setting);
    }
    return 0;
}

int issuer_read(const char *url, const char *form, struct cv_cancel *cancel, json_t **ret_json,
                struct cv_error *error)
{
    static const char *const headers[] = {"Accept: application/jwk-set+json, application/json",
                                          "Content-Type: application/x-www-form-urlencoded", NULL};
    struct cv_http_networks allowed = {0};
    cv_auto(cv_http_client_close) struct cv_http_client *client = NULL;
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {0};
    CV_TRY(issuer_check(url, &allowed, error));
    const struct cv_http_request request = {.url = url,
                                            .method = form ? "POST" : "GET",
                                            .headers = headers,
                                            .body = form,
                                            .body_length = form ? strlen(form) : 0,
                                            .answer_max = ANSWER_MAX_BYTES,
                                            .timeout_ms = READ_MS,
                                            .ca_file = cv_env("CORTANA_CA_FILE", NULL),
                                            .allowed = &allowed,
                                            .allow_setting = allow_setting,
                                            .cancel = cancel};
    CV_TRY(cv_http_client_open(&client, error));
    CV_TRY(cv_http_send(client, &request, &answer, error));
    if (answer.status != 200 || answer.is_cut || !answer.body.data) {
        return cv_fail(error, CV_ERROR_CONNECTION, "%s was answered %ld%s", url, answer.status,
                       answer.is_cut ? ", and is longer than 256 KiB" : "");
    }
    *ret_json = json_loads(answer.body.data, JSON_REJECT_DUPLICATES, NULL);
    return *ret_json ? 0 : cv_fail(error, CV_ERROR_CONNECTION, "%s is no JSON", url);
}
