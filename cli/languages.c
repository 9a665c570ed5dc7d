#include "cli/languages.h"

#include <string.h>

CV_DEFINE_CLEANUP(json_t *, json_decref)

static bool is_name(const char *text, size_t length)
{
    static const char script[] = "script/";
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

    if (length > strlen(script) && strncmp(text, script, strlen(script)) == 0) {
        text += strlen(script);
        length -= strlen(script);
    }
    return length >= 2 && length <= CLI_LANGUAGE_NAME_MAX && strspn(text, letters) >= length;
}

json_t *cli_parse_languages(const char *text)
{
    cv_auto(json_decref) json_t *list = json_array();

    for (const char *part = text; list;) {
        size_t length = strcspn(part, "+");
        if (!is_name(part, length) || json_array_size(list) == CLI_LANGUAGES_MAX ||
            json_array_append_new(list, json_stringn(part, length))) {
            return NULL;
        }
        if (part[length] == '\0') {
            return cv_take(list);
        }
        part += length + 1;
    }
    return NULL;
}
