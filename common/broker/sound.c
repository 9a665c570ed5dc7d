#include "common/broker/sound.h"

#include "common/speech/speech.h"

enum {
    TRANSCRIPTION_MS = 20 * 60 * 1000, /* five minutes of sound at a quarter of their speed */
};

int broker_send_sound(const struct cv_store_input *file, struct cv_cancel *cancel,
                      json_t **ret_text, void **ret_body, size_t *ret_length,
                      struct cv_error *error)
{
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {.status = 0};
    cv_auto_free char *data = file->size <= CV_SPEECH_BYTES_MAX ? malloc(file->size + 1) : NULL;
    size_t size = 0;
    CV_TRY_MEMORY(data, error, "sound");
    CV_TRY(cv_store_read_file(file->fd, 0, data, file->size, &size, error));
    CV_TRY(cv_speech_ask(data, size, TRANSCRIPTION_MS, cancel, &answer, error));
    *ret_text = json_pack("{s:I, s:I}", "status", (json_int_t)answer.status, "retry_after_ms",
                          (json_int_t)answer.retry_after_ms);
    CV_TRY_MEMORY(*ret_text, error, "a reply");
    *ret_length = answer.body.length;
    *ret_body = cv_take(answer.body.data);
    return 0;
}
