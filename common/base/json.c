#include "common/base/base.h"

#include <string.h>

json_t *cv_json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value) {
        return value;
    }
    cv_auto_free char *ascii = strdup(text);
    if (!ascii) {
        return NULL;
    }
    for (char *c = ascii; *c; c++) {
        if ((unsigned char)*c >= 0x80) {
            *c = '?';
        }
    }
    return json_string(ascii);
}
