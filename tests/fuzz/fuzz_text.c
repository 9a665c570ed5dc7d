/* Readings of a screen, as they reach the search for entities: any bytes. Every entity lies within its limits. */
#include "common/text/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cv_entity_extractor *extractor;
    struct cv_error error;
    if (!extractor && cv_entity_extractor_new(&extractor, &error) < 0) {
        abort();
    }
    cv_auto_free char *text = strndup((const char *)data, size);
    if (!text) {
        return 0;
    }
    cv_auto(cv_entity_list_deinit) struct cv_entity_list list = {0};
    if (cv_entity_extract(extractor, text, &list, &error) == 0) {
        for (size_t i = 0; i < list.count; i++) {
            if (!list.entities[i].type || strlen(list.entities[i].value) > 1024) {
                abort();
            }
        }
    }
    return 0;
}
