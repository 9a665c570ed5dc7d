/* What is said in sound, from an HTTP endpoint with the API of OpenAI ("/v1/audio/transcriptions"): whisper.cpp's server,
 * Speaches and others speak it. The sound is one member of a form; the answer is JSON, which is not read here, because
 * the processes that ask are trusted and the answer is not.
 *
 * Environment:
 *   TRANSCRIBE_URL      the endpoint, http or https; what is behind '?' becomes members of the form
 *                       ("?model=whisper-1&language=de")
 *   TRANSCRIBE_API_KEY  sent as a bearer token
 */
#pragma once

#include "common/http/http.h"

enum {
    CV_SPEECH_BYTES_MAX = 25 << 20,  /* of a file, as OpenAI limits it */
    CV_SPEECH_ANSWER_MAX = 16 << 20, /* bytes; five minutes of speech with all words have 0.2 MiB */
};

/* Reads the environment. CV_ERROR_CONFIGURATION when TRANSCRIBE_URL is missing, is not an http(s) URL, or contains a
 * user's name. */
CV_MUST_CHECK int cv_speech_check(struct cv_error *error);

/* Sends a WAV file of at most CV_SPEECH_BYTES_MAX, once. Returns 0 whatever the answer's status is; the caller deinits the
 * answer. Failures mean that no answer came (cv_http_send), that it is longer than CV_SPEECH_ANSWER_MAX
 * (CV_ERROR_SERVER), or are those of cv_speech_check. `cancel` (may be NULL) ends the wait. */
CV_MUST_CHECK int cv_speech_ask(const void *sound, size_t length, int64_t timeout_ms,
                                struct cv_cancel *cancel, struct cv_http_answer *ret_answer,
                                struct cv_error *error);
