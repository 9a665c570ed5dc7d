/* A request line's target and a body, as strangers send them, for every operation: what passes the checks holds only
 * what the operation's rules name, and what does not pass says why. The first byte chooses the method; the target ends
 * at the first NUL, and the body is behind it. */
#include "gateway/routes.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static bool is_ruled(const struct operation *operation, const char *name)
{
    for (size_t i = 0; i < operation->rule_count; i++) {
        if (strcmp(operation->rules[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void check(const struct operation *operation, const struct request_values *values)
{
    cv_auto(json_decref) json_t *checked = NULL;
    cv_auto(json_decref) json_t *faults = NULL;
    struct cv_error error;
    const char *name;
    json_t *value;
    int result = route_check(operation, values, &checked, &faults, &error);
    if (result < 0 || (result == PARAMETERS_REFUSED && json_array_size(faults) == 0)) {
        abort();
    }
    json_object_foreach(checked, name, value)
    {
        if (!is_ruled(operation, name)) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "POST", "HEAD", "DELETE"};
    char allowed[METHODS_SIZE];
    const struct operation *operation = NULL;
    if (size < 1) {
        return 0;
    }
    cv_auto_free char *text = malloc(size);
    if (!text) {
        return 0;
    }
    (void)memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    size_t length = strlen(text);
    size_t path_length = strcspn(text, "?");
    const struct request_values values = {
        .path = text,
        .path_length = path_length,
        .query = path_length < length ? text + path_length + 1 : "",
        .body = length + 1 < size ? text + length + 1 : NULL,
        .body_length = length + 1 < size ? size - length - 2 : 0,
    };
    if (route_find(methods[data[0] % CV_COUNT(methods)], text, path_length, &operation, allowed) ==
        0) {
        check(operation, &values);
    }
    check(&operations[data[0] % operation_count], &values);
    return 0;
}
