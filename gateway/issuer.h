/* Requests to those who say who somebody is: a JSON Web Key Set at a URL, a provider of OpenID Connect. */
#pragma once

#include "common/http/http.h"

/* Refuses (CV_ERROR_CONFIGURATION) a URL that is neither https nor on this machine: what is sent over a network
 * unencrypted could be replaced. *ret_networks: private ones to which it may lead (CORTANA_JWKS_ALLOW). */
CV_MUST_CHECK int issuer_check(const char *url, struct cv_http_networks *ret_networks,
                               struct cv_error *error);

/* Reads JSON from such a URL, within 5 s: by GET, or by sending `form`. The caller must json_decref it. */
CV_MUST_CHECK int issuer_read(const char *url, const char *form, struct cv_cancel *cancel,
                              json_t **ret_json, struct cv_error *error);
