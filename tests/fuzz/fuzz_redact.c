/* Log lines, tails and payloads: any bytes. A redacted text has the length of the text; JSON stays JSON, and no
 * member named "password" keeps its value. */
#include "common/base/base.h"

#include <stdlib.h>
#include <string.h>

static void check_no_password(const json_t *value)
{
    const json_t *password = json_object_get(value, "password");
    if (json_is_string(password) && strcmp(json_string_value(password), "***") != 0) {
        abort();
    }
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)value, key, member)
    {
        check_no_password(member);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        check_no_password(json_array_get(value, i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cv_error error;
    cv_auto_free char *text = strndup((const char *)data, size);
    cv_auto_free char *shown = NULL;
    if (!text || cv_redacted_text(text, &shown, &error) < 0) {
        return 0;
    }
    cv_auto(json_decref) json_t *value = json_loads(text, JSON_ALLOW_NUL, NULL);
    if (value) {
        cv_auto(json_decref) json_t *redacted = json_loads(shown, JSON_ALLOW_NUL, NULL);
        if (!redacted || json_typeof(redacted) != json_typeof(value)) {
            abort();
        }
        check_no_password(redacted);
    }
    size_t length = strlen(text);
    cv_redact(text);
    if (strlen(text) != length) {
        abort();
    }
    return 0;
}
