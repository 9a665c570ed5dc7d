/* What an endpoint of speech answers: any bytes. Lines that are taken are within the sound, have text, and are not too long. The
 * first byte is the length of the sound, in half seconds. */
#include "workers/transcribe/answer.h"

#include <stdlib.h>
#include <string.h>

enum { FROM_MS = 7000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cv_error error;
    cv_auto(cv_subtitle_list_deinit) struct cv_subtitle_list list = {0};
    if (size == 0) {
        return 0;
    }
    int64_t length_ms = 500 * (int64_t)data[0];
    if (answer_read((const char *)data + 1, size - 1, FROM_MS, length_ms, &list, &error) != 0 ||
        cv_subtitles_finish(&list, &error) != 0) {
        return 0;
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct cv_subtitle *line = &list.items[i];
        if (line->start_ms < FROM_MS || line->end_ms <= line->start_ms ||
            line->end_ms > FROM_MS + length_ms || !line->text[0] ||
            strlen(line->text) > CV_SUBTITLE_BYTES_MAX ||
            strlen(line->language) >= sizeof(line->language)) {
            abort();
        }
    }
    return 0;
}
