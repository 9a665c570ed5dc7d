/* Sound that a stage has transcribed. */
#pragma once

#include "common/store/backend.h"

#include <jansson.h>

/* Sends a WAV file, which is open and of at most CV_SPEECH_BYTES_MAX, to the endpoint. *ret_text gets {"status",
 * "retry_after_ms"}, *ret_body and *ret_length the answer's body, which may be NULL; free both. */
CV_MUST_CHECK int broker_send_sound(const struct cv_store_input *file, struct cv_cancel *cancel,
                                    json_t **ret_text, void **ret_body, size_t *ret_length,
                                    struct cv_error *error);
