#include "cli/terminal/terminal.h"

#include <string.h>
#include <time.h>

/* Text made from a template and a JSON object. */

enum {
    PATH_MAX_LENGTH = 64,
    ID_LETTERS = 8, /* characters of a UUID that are shown; enough to identify it */
    PERCENT = 100,
};

struct expansion {
    struct cv_buffer *text;
    const json_t *object;
    bool is_short;
    const char *at;
};

json_t *cli_find_member(const json_t *object, const char *path)
{
    json_t *value = NULL;
    while (object) {
        char name[PATH_MAX_LENGTH];
        size_t length = strcspn(path, ".");
        (void)snprintf(name, sizeof(name), "%.*s", (int)length, path);
        int64_t index = 0;
        value = json_is_object(object)                     ? json_object_get(object, name)
                : cv_parse_int(name, 0, INT32_MAX, &index) ? json_array_get(object, (size_t)index)
                                                           : NULL;
        if (path[length] != '.') {
            break;
        }
        object = value;
        value = NULL;
        path += length + 1;
    }
    return value;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static void append_size(struct cv_buffer *text, double bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    while (bytes >= 10240 && unit + 1 < CV_COUNT(units)) { /* as PostgreSQL's pg_size_pretty */
        bytes = (double)(int64_t)(bytes / 1024 + 0.5);
        unit++;
    }
    cv_buffer_printf(text, "%.0f %s", bytes, units[unit]);
}

/* A time of the API, in milliseconds since 1970. */
static bool read_time(const char *text, int64_t *ret_ms)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    double fraction = 0;
    if (rest && *rest == '.') {
        size_t length = 1 + strspn(rest + 1, "0123456789");
        char digits[24];
        (void)snprintf(digits, sizeof(digits), "0%.*s", (int)length, rest);
        fraction = cv_parse_double(digits, 0, 1, &fraction) ? fraction : 0;
        rest += length;
    }
    /* Sessions of the gateway and of this program have the time zone UTC. */
    int hours = 0;
    int minutes = 0;
    char sign = '+';
    (void)(rest && sscanf(rest, "%c%2d:%2d", &sign, &hours, &minutes));
    int64_t offset = (hours * 60 + minutes) * (int64_t)60000 * (sign == '-' ? -1 : 1);
    *ret_ms = rest ? (int64_t)timegm(&tm) * 1000 + (int64_t)(fraction * 1000) - offset : 0;
    return rest != NULL;
}

static void append_time(struct cv_buffer *text, int64_t ms)
{
    char shown[CV_TIMESTAMP_SIZE];
    (void)cv_format_timestamp(ms, shown);
    shown[10] = ' ';
    cv_buffer_printf(text, "%.19s", shown);
}

static void append_value(struct cv_buffer *text, const json_t *value)
{
    size_t i;
    json_t *item;
    if (json_is_string(value)) {
        cv_buffer_text(text, json_string_value(value));
    } else if (json_is_array(value) && !json_is_object(json_array_get(value, 0))) {
        json_array_foreach(value, i, item)
        {
            cv_buffer_text(text, i ? "," : "");
            append_value(text, item);
        }
    } else {
        cv_auto_free char *dumped =
            json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        cv_buffer_text(text, dumped ? dumped : "");
    }
}

/* Appends a value in the form that stands behind the colon, or that its name asks for. */
static void append_formed(const struct expansion *expansion, const char *name, const char *form,
                          const json_t *value)
{
    struct cv_buffer *text = expansion->text;
    char buffer[CLI_COUNTED_SIZE];
    char one[CLI_COUNTED_SIZE] = "";
    int64_t ms = 0;
    if (strncmp(form, "count ", 6) == 0) {
        size_t length = strcspn(form + 6, "/");
        (void)snprintf(one, sizeof(one), "%.*s", (int)length, form + 6);
        const char *many = form[6 + length] ? form + 7 + length : one;
        cv_buffer_text(text, cli_counted(json_integer_value(value), one, many, buffer));
    } else if (strcmp(form, "percent") == 0 && json_is_number(value)) {
        cv_buffer_printf(text, "%.0f %%", json_number_value(value) * PERCENT);
    } else if (strcmp(form, "round") == 0 && json_is_number(value)) {
        cv_buffer_printf(text, "%.0f", json_number_value(value));
    } else if (strcmp(form, "length") == 0) {
        cv_buffer_printf(text, "%zu", json_array_size(value));
    } else if (strcmp(form, "size") == 0 && json_is_number(value)) {
        append_size(text, json_number_value(value));
    } else if (strcmp(form, "clock") == 0 && json_is_number(value)) {
        char shown[CLI_TIME_SIZE];
        cv_buffer_text(text, cli_time((int64_t)json_number_value(value), shown));
    } else if (strcmp(form, "s") == 0 && json_is_number(value)) {
        char shown[CLI_TIME_SIZE];
        cv_buffer_text(text, cli_duration((int64_t)(json_number_value(value) * 1000), shown));
    } else if (ends_with(name, "_ms") && json_is_number(value)) {
        char shown[CLI_TIME_SIZE];
        cv_buffer_text(text, cli_duration((int64_t)json_number_value(value), shown));
    } else if (json_is_string(value) && strcmp(form, "ago") == 0 &&
               read_time(json_string_value(value), &ms)) {
        char shown[CLI_TIME_SIZE];
        int64_t ago = cv_wall_ms() - ms;
        cv_buffer_text(text, cli_duration(ago > 0 ? ago : 0, shown));
    } else if (json_is_string(value) && strcmp(form, "time") == 0 &&
               read_time(json_string_value(value), &ms)) {
        append_time(text, ms);
    } else if (json_is_string(value) && expansion->is_short && form[0] == '\0' &&
               (strcmp(name, "id") == 0 || ends_with(name, "_id"))) {
        cv_buffer_append(text, json_string_value(value),
                         strnlen(json_string_value(value), ID_LETTERS));
    } else {
        append_value(text, value);
    }
}

/* Expands "{…}", of which `at` is behind the brace. Returns whether the condition holds, or the
 * value is there. */
static bool expand_value(struct expansion *expansion)
{
    char name[PATH_MAX_LENGTH * 2];
    size_t length = strcspn(expansion->at, "}");
    (void)snprintf(name, sizeof(name), "%.*s", (int)length, expansion->at);
    expansion->at += length + (expansion->at[length] == '}');
    bool is_negated = name[0] == '!';
    bool is_condition = is_negated || name[0] == '?';
    char *path = name + is_condition;
    char *form = path + strcspn(path, ":=");
    char kind = *form;
    if (kind) {
        *form++ = '\0';
    }
    const json_t *value = cli_find_member(expansion->object, path);
    bool is_there = value && !json_is_null(value);
    if (kind == '=') {
        cv_auto(cv_buffer_deinit) struct cv_buffer word = CV_BUFFER_INIT;
        append_value(&word, value);
        return (is_there && word.data && strcmp(word.data, form) == 0) != is_negated;
    }
    if (is_condition) {
        return (is_there && !json_is_false(value)) != is_negated;
    }
    if (is_there) {
        append_formed(expansion, path, form, value);
    }
    return is_there;
}

/* Expands up to the end of the block or of its alternative; returns whether everything is there. */
static bool expand_text(struct expansion *expansion)
{
    bool is_whole = true;
    while (*expansion->at && *expansion->at != ']' && *expansion->at != '|') {
        char next = *expansion->at++;
        if (next == '{') {
            is_whole = expand_value(expansion) && is_whole;
        } else if (next == '[') {
            bool is_done = false;
            do {
                size_t length = expansion->text->length;
                bool is_good = expand_text(expansion);
                if ((is_done || !is_good) && expansion->text->data) {
                    expansion->text->length = length;
                    expansion->text->data[length] = '\0';
                }
                is_done = is_done || is_good;
            } while (*expansion->at && *expansion->at++ == '|');
        } else {
            cv_buffer_append(expansion->text, &next, 1);
        }
    }
    return is_whole;
}

void cli_expand(struct cv_buffer *text, const char *pattern, const json_t *object, bool is_short)
{
    struct expansion expansion = {text, object, is_short, pattern};
    (void)expand_text(&expansion);
}
