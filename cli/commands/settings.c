#include "cli/commands/operation.h"

#include <string.h>

/* NAME=VALUE: parameters that are members of the operation's body, read by its description. */

enum { NAME_SIZE = 64 };

/* The words of a text, as a JSON list of texts; NULL: out of memory. */
static json_t *read_words(const char *text)
{
    cv_auto(json_decref) json_t *list = json_array();
    for (const char *word = text; list && *word;) {
        size_t length = strcspn(word, ",");
        if (json_array_append_new(list, json_stringn(word, length))) {
            return NULL;
        }
        word += length + (word[length] == ',');
    }
    return cv_take(list);
}

static const struct cli_parameter *find_parameter(const char *operation, const char *name)
{
    for (size_t i = 0; i < cli_parameter_count; i++) {
        if (strcmp(cli_parameters[i].operation, operation) == 0 &&
            strcmp(cli_parameters[i].name, name) == 0) {
            return &cli_parameters[i];
        }
    }
    return NULL;
}

/* Reads a number within its limits; a time becomes milliseconds. */
static int read_integer(struct cli_call *call, const struct cli_parameter *parameter,
                        const char *setting, const char *text, json_t **ret_value)
{
    int64_t number = 0;
    bool has_none = parameter->is_nullable || parameter->low == 0;
    bool is_time = strstr(parameter->name, "_ms") != NULL;
    if (has_none && strcmp(text, "none") == 0) {
        *ret_value = parameter->is_nullable ? json_null() : json_integer(0);
        return 0;
    }
    if (is_time && !cli_parse_time(text, &number)) {
        return cli_usage(call, "%s takes a time like 90s, 10m or 2h, not '%s'", setting, text);
    }
    if (is_time ? (double)number < parameter->low || (double)number > parameter->high
                : !cv_parse_int(text, (int64_t)parameter->low, (int64_t)parameter->high, &number)) {
        return cli_usage(call, "%s takes a number from %.0f to %.0f%s%s, not '%s'", setting,
                         parameter->low, parameter->high, is_time ? " ms" : "",
                         has_none ? ", or none" : "", text);
    }
    *ret_value = json_integer(number);
    return 0;
}

static int read_setting(struct cli_call *call, const struct cli_parameter *parameter,
                        const char *setting, const char *text, json_t **ret_value)
{
    if (strcmp(parameter->type, "integer") == 0) {
        return read_integer(call, parameter, setting, text, ret_value);
    } else if (strcmp(parameter->type, "boolean") == 0) {
        *ret_value = json_boolean(strcmp(text, "yes") == 0);
        return cli_is_among("yes no", text)
                   ? 0
                   : cli_usage(call, "%s takes yes or no, not '%s'", setting, text);
    } else if (strcmp(parameter->type, "array") != 0) {
        *ret_value = json_string(text);
        return 0;
    }
    size_t i;
    json_t *word;
    cv_auto(json_decref) json_t *list = read_words(text);
    json_array_foreach(list, i, word)
    {
        json_t *value = NULL;
        if (strstr(parameter->name, "_ms")) {
            CV_TRY(read_integer(call, parameter, setting, json_string_value(word), &value));
            if (json_array_set_new(list, i, value)) {
                return 0; /* the caller finds no value */
            }
        }
    }
    *ret_value = cv_take(list);
    return 0;
}

int cli_read_setting(struct cli_call *call, const char *text, json_t *values,
                     struct cv_error *error)
{
    char name[NAME_SIZE];
    size_t length = strcspn(text, "=");
    (void)snprintf(name, sizeof(name), "%.*s", (int)length, text);
    cv_auto(cv_buffer_deinit) struct cv_buffer names = CV_BUFFER_INIT;
    for (const char *w = call->verb->settings; *w; w += strcspn(w, " "), w += *w == ' ') {
        char member[NAME_SIZE];
        json_t *value = NULL;
        size_t name_length = strcspn(w, "> ");
        const char *start = w[name_length] == '>' ? w + name_length + 1 : w;
        (void)snprintf(member, sizeof(member), "%.*s", (int)strcspn(start, " "), start);
        cv_buffer_printf(&names, "%s%.*s", names.length ? " " : "", (int)name_length, w);
        if (text[length] != '=' || name_length != length || strncmp(w, text, length) != 0) {
            continue;
        }
        const struct cli_parameter *parameter = find_parameter(call->verb->operation, member);
        if (!parameter) {
            return cv_fail(error, CV_ERROR_INTERNAL, "the API knows no %s", member);
        }
        CV_TRY(read_setting(call, parameter, name, text + length + 1, &value));
        CV_TRY_MEMORY(value && json_object_set_new(values, member, value) == 0, error, "a setting");
        return 0;
    }
    CV_TRY_MEMORY(!names.failed && names.data, error, "the settings");
    const char *near = cli_did_you_mean(names.data, name);
    return cli_usage(call, "'%s' is not a setting: NAME=VALUE with one of %s%s%s%s", text,
                     names.data, near[0] ? "; did you mean " : "", near, near[0] ? "?" : "");
}
