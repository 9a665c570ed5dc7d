/* Payloads of transcode jobs, and what a chunk of a split job leaves for the one that joins. */
#include "workers/transcode/transcode.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int ignore(void *opaque, const struct cv_ladder_file *file, struct cv_error *error)
{
    (void)opaque, (void)error;
    return file->name[0] == '\0' ? -1 : 0;
}

/* The text that a chunk leaves is read by another job than the one that wrote it. */
static void join(const char *text)
{
    static const struct cv_media_info source = {
        .width = 320, .height = 240, .sample_aspect = {1, 1}, .duration_us = 8000000};
    struct cv_ladder_params params = {
        .directory = "/nonexistent", .source = &source, .joins = true, .finished = ignore};
    cv_auto(cv_ladder_free) struct cv_ladder *ladder = NULL;
    struct cv_error error;
    if (cv_ladder_new(&params, &ladder, &error) == 0 && cv_ladder_join(ladder, text, &error) == 0) {
        (void)(cv_ladder_join(ladder, text, &error) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cv_auto(json_decref) json_t *payload = json_loadb((const char *)data, size, 0, NULL);
    if (json_is_object(payload)) {
        struct transcode_request request;
        struct cv_error error;
        (void)(transcode_read_request(payload, &request, &error) == 0);
        free(request.chunks);
    } else {
        cv_auto_free char *text = strndup((const char *)data, size);
        if (text) {
            join(text);
        }
    }
    return 0;
}
