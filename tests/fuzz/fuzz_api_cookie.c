/* The header Cookie, as strangers send it: what is found lies within it. */
#include "gateway/caller.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cv_auto_free char *text = strndup((const char *)data, size);
    size_t length = 0;
    int count = 0;
    const char *found = text ? caller_find_cookie(text, "cortana", &length, &count) : NULL;
    if (found && (count < 1 || found < text || found + length > text + strlen(text) ||
                  memchr(found, ';', length))) {
        abort();
    }
    return 0;
}
