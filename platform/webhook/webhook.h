/* The webhook stage: delivers one message to one URL, signed.
 *
 * The form is that of Standard Webhooks (standardwebhooks.com, specification 1.0.0): headers
 * webhook-id, webhook-timestamp and webhook-signature, HMAC-SHA-256 over "id.timestamp.body" with
 * each valid secret. common/http checks which addresses may be called.
 */
#pragma once

#include "common/worker/worker.h"

/* The port of the webhook's URL; 0 when there is no such webhook. */
CV_MUST_CHECK int webhook_port(struct cv_stage_context *context, const json_t *payload,
                               uint16_t *ret_port, struct cv_error *error);

/* Payload: {"webhook", "id", "type", "timestamp", "data"}; result: {"status", "took_ms"}. An
 * answer other than 2xx is a failure: CV_ERROR_REFUSED, or an error that allows retries. */
CV_MUST_CHECK int webhook_run(struct cv_stage_context *context, const json_t *payload,
                              json_t **ret_result, struct cv_error *error);
