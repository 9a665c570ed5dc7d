/* Payloads of clip_generate jobs. */
#include "workers/clip_generate/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cv_auto(json_decref) json_t *payload = json_loadb((const char *)data, size, 0, NULL);
    cv_auto(clip_request_deinit) struct clip_request request = {0};
    struct cv_error error;
    if (json_is_object(payload) && clip_request_read(payload, &request, &error) == 0 &&
        clip_request_end_us(&request) < clip_request_start_us(&request)) {
        __builtin_trap();
    }
    return 0;
}
