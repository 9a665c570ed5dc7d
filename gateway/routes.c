#include "gateway/routes.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <math.h>
#include <pcre2.h>
#include <string.h>

enum {
    NAME_MAX_BYTES = 64,
    PATH_VALUE_MAX_BYTES =
        160, /* longest: the id of a worker has a host name, a number and a UUID */
    QUERY_PAIRS_MAX = 64,
    BODY_DEPTH_MAX = 32,    /* nesting of lists and objects */
    PATTERN_SHOWN_MAX = 80, /* characters; a longer pattern helps nobody */
};

/* ---- which operation ------------------------------------------------------------------------- */

/* The length of the path segment that begins at `text`, without the slash after it. */
static size_t part_length(const char *text, size_t length)
{
    const char *slash = memchr(text, '/', length);
    return slash ? (size_t)(slash - text) : length;
}

static bool matches(const char *pattern, const char *path, size_t path_length)
{
    size_t pattern_length = strlen(pattern);
    while (pattern_length > 0 && path_length > 0) {
        size_t expected = part_length(pattern, pattern_length);
        size_t given = part_length(path, path_length);
        bool is_parameter = expected > 0 && pattern[0] == '{';
        if (is_parameter ? given == 0 : given != expected || memcmp(pattern, path, given) != 0) {
            return false;
        }
        bool pattern_goes_on = expected < pattern_length;
        if (pattern_goes_on != (given < path_length)) {
            return false;
        }
        pattern += expected + pattern_goes_on;
        pattern_length -= expected + pattern_goes_on;
        path += given + pattern_goes_on;
        path_length -= given + pattern_goes_on;
    }
    return pattern_length == 0 && path_length == 0;
}

static void add_method(char methods[METHODS_SIZE], const char *method)
{
    size_t used = strlen(methods);
    (void)snprintf(methods + used, METHODS_SIZE - used, "%s%s%s", used ? ", " : "", method,
                   strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

int route_find(const char *method, const char *path, size_t path_length,
               const struct operation **ret_operation, char methods[METHODS_SIZE])
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    methods[0] = '\0';
    for (size_t i = 0; i < operation_count; i++) {
        if (matches(operations[i].path, path, path_length)) {
            if (strcmp(operations[i].method, wanted) == 0) {
                *ret_operation = &operations[i];
                return 0;
            }
            add_method(methods, operations[i].method);
        }
    }
    return methods[0] ? ROUTE_NO_SUCH_METHOD : ROUTE_NO_SUCH_PATH;
}

const struct operation *route_named(const char *name)
{
    for (size_t i = 0; i < operation_count; i++) {
        if (strcmp(operations[i].name, name) == 0) {
            return &operations[i];
        }
    }
    return NULL;
}

/* ---- one value ------------------------------------------------------------------------------- */

struct check {
    const struct operation *operation;
    json_t *values; /* by name */
    json_t *faults;
    bool out_of_memory;
};

static void add_fault(struct check *check, const char *name, const char *format, ...)
    CV_PRINTF(3, 4);
static void add_fault(struct check *check, const char *name, const char *format, ...)
{
    char detail[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(detail, sizeof(detail), format, arguments);
    va_end(arguments);
    json_t *fault = json_pack("{s:s, s:s}", "pointer", name, "detail", detail);
    if (!fault || json_array_append_new(check->faults, fault) != 0) {
        check->out_of_memory = true;
    }
}

static size_t count_characters(const char *text)
{
    size_t count = 0;
    for (; *text; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

static bool matches_pattern(const char *pattern, const char *text)
{
    int code = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &code, &offset, NULL);
    pcre2_match_data *match =
        compiled ? pcre2_match_data_create_from_pattern(compiled, NULL) : NULL;
    bool is_match =
        match && pcre2_match(compiled, (PCRE2_SPTR)text, strlen(text), 0, 0, match, NULL) >= 0;
    pcre2_match_data_free(match);
    pcre2_code_free(compiled);
    return is_match;
}

static bool is_listed(const char *const *values, const char *text)
{
    for (; *values; values++) {
        if (strcmp(*values, text) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_time(const char *text)
{
    return matches_pattern(
        "^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])[Tt]([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d"
        "(\\.\\d{1,6})?([Zz]|[+-](0\\d|1[0-4]):[0-5]\\d)$",
        text);
}

static void add_unlisted(struct check *check, const struct rule *rule)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer list = CV_BUFFER_INIT;
    for (const char *const *value = rule->values; *value; value++) {
        cv_buffer_printf(&list, "%s%s", list.length ? ", " : "", *value);
    }
    add_fault(check, rule->name, "must be one of %s", list.failed ? "a list" : list.data);
}

static bool check_text(struct check *check, const struct rule *rule, const char *text)
{
    size_t length = count_characters(text);
    if (rule->type == TYPE_UUID && !cv_is_uuid(text)) {
        add_fault(check, rule->name, "must be a UUID");
    } else if (rule->type == TYPE_TIME && !is_time(text)) {
        add_fault(check, rule->name, "must be a time as in 2026-01-31T12:00:00Z");
    } else if (length < rule->shortest || length > rule->longest) {
        add_fault(check, rule->name, "has %zu characters, and is to have %zu to %zu", length,
                  rule->shortest, rule->longest);
    } else if (rule->values && !is_listed(rule->values, text)) {
        add_unlisted(check, rule);
    } else if (rule->pattern && !matches_pattern(rule->pattern, text)) {
        if (strlen(rule->pattern) <= PATTERN_SHOWN_MAX) {
            add_fault(check, rule->name, "does not match %s", rule->pattern);
        } else {
            add_fault(check, rule->name, "has not the form that GET /api/v1/docs describes");
        }
    } else {
        return true;
    }
    return false;
}

static bool check_number(struct check *check, const struct rule *rule, double number)
{
    if (number >= rule->low && number <= rule->high) {
        return true;
    }
    if (isinf(rule->high)) {
        add_fault(check, rule->name, "must be at least %g", rule->low);
    } else {
        add_fault(check, rule->name, "must be a number from %.15g to %.15g", rule->low, rule->high);
    }
    return false;
}

static void keep(struct check *check, const char *name, json_t *value)
{
    if (!value || json_object_set_new(check->values, name, value) != 0) {
        check->out_of_memory = true;
    }
}

/* Converts a parameter of the path or the query to its type. */
static void read_text(struct check *check, const struct rule *rule, const char *text)
{
    int64_t whole = 0;
    double number = 0;
    switch (rule->type) {
    case TYPE_INTEGER:
        if (!cv_parse_int(text, INT64_MIN, INT64_MAX, &whole)) {
            add_fault(check, rule->name, "must be a whole number");
        } else if (check_number(check, rule, (double)whole)) {
            keep(check, rule->name, json_integer(whole));
        }
        return;
    case TYPE_NUMBER:
        if (!cv_parse_double(text, -1e15, 1e15, &number)) {
            add_fault(check, rule->name, "must be a number");
        } else if (check_number(check, rule, number)) {
            keep(check, rule->name, json_real(number));
        }
        return;
    case TYPE_BOOLEAN:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
            add_fault(check, rule->name, "must be true or false");
        } else {
            keep(check, rule->name, json_boolean(text[0] == 't'));
        }
        return;
    default:
        if (check_text(check, rule, text)) {
            keep(check, rule->name, json_string(text));
        }
    }
}

/* Checks a member of the body. */
static void check_json(struct check *check, const struct rule *rule, json_t *value)
{
    bool has_type = rule->type == TYPE_INTEGER ? json_is_integer(value)
                    : rule->type == TYPE_INTEGER_OR_TEXT
                        ? json_is_integer(value) || json_is_string(value)
                    : rule->type == TYPE_NUMBER  ? json_is_number(value)
                    : rule->type == TYPE_BOOLEAN ? json_is_boolean(value)
                    : rule->type == TYPE_OBJECT  ? json_is_object(value)
                    : rule->type == TYPE_LIST    ? json_is_array(value)
                                                 : json_is_string(value);
    if (json_is_null(value) && rule->is_nullable) {
        keep(check, rule->name, json_null());
        return;
    }
    if (!has_type) {
        add_fault(check, rule->name, "has another type than the document says");
        return;
    }
    bool is_good = json_is_number(value)   ? check_number(check, rule, json_number_value(value))
                   : json_is_string(value) ? check_text(check, rule, json_string_value(value))
                                           : true;
    if (is_good) {
        keep(check, rule->name, json_incref(value));
    }
}

static const struct rule *find_rule(const struct operation *operation, enum place place,
                                    const char *name)
{
    for (size_t i = 0; i < operation->rule_count; i++) {
        if (operation->rules[i].place == place && strcmp(operation->rules[i].name, name) == 0) {
            return &operation->rules[i];
        }
    }
    return NULL;
}

/* ---- path, query, body ------------------------------------------------------------------------ */

static void check_path(struct check *check, const char *path, size_t length)
{
    const char *pattern = check->operation->path;
    while (*pattern && length > 0) {
        size_t expected = part_length(pattern, strlen(pattern));
        size_t given = part_length(path, length);
        if (pattern[0] == '{' && expected > 2 && expected < NAME_MAX_BYTES) {
            char name[NAME_MAX_BYTES];
            char value[PATH_VALUE_MAX_BYTES];
            (void)snprintf(name, sizeof(name), "%.*s", (int)expected - 2, pattern + 1);
            int length_written = snprintf(value, sizeof(value), "%.*s", (int)given, path);
            const struct rule *rule = find_rule(check->operation, PLACE_PATH, name);
            if (rule && (size_t)length_written >= sizeof(value)) {
                add_fault(check, name, "is longer than anything that is called so");
            } else if (rule) {
                read_text(check, rule, value);
            }
        }
        pattern += expected + (pattern[expected] == '/');
        path += given + (given < length);
        length -= given + (given < length);
    }
}

/* Decodes a name or a value of a query into `text`, which has room for `length` and a NUL. */
static bool decode(const char *encoded, size_t length, char *text)
{
    for (size_t i = 0; i < length; i++) {
        if (encoded[i] == '%') {
            int high = i + 2 < length ? cv_hex_digit(encoded[i + 1]) : -1;
            int low = high >= 0 ? cv_hex_digit(encoded[i + 2]) : -1;
            if (low < 0 || high * 16 + low == 0) {
                return false;
            }
            *text++ = (char)(high * 16 + low);
            i += 2;
        } else {
            *text++ = encoded[i] == '+' ? ' ' : encoded[i];
        }
    }
    *text = '\0';
    return true;
}

static void read_pair(struct check *check, const char *name, const char *value)
{
    cv_auto(json_decref) json_t *probe = json_pack("[s, s]", name, value); /* NULL: not UTF-8 */
    const struct rule *rule = probe ? find_rule(check->operation, PLACE_QUERY, name) : NULL;
    if (!probe) {
        add_fault(check, "query", "is not UTF-8");
    } else if (!rule) {
        add_fault(check, name, "is not a parameter of this operation");
    } else if (json_object_get(check->values, name)) {
        add_fault(check, name, "is given twice");
    } else {
        read_text(check, rule, value);
    }
}

static void check_query(struct check *check, const char *query)
{
    size_t pairs = 0;
    while (*query) {
        size_t length = strcspn(query, "&");
        const char *equals = memchr(query, '=', length);
        size_t name_length = equals ? (size_t)(equals - query) : length;
        size_t value_length = equals ? length - name_length - 1 : 0;
        cv_auto_free char *name = malloc(name_length + 1);
        cv_auto_free char *value = malloc(value_length + 1);
        if (!name || !value) {
            check->out_of_memory = true;
            return;
        }
        if (++pairs > QUERY_PAIRS_MAX) {
            add_fault(check, "query", "has more than %d parameters", QUERY_PAIRS_MAX);
            return;
        }
        if (length > 0) {
            if (decode(query, name_length, name) &&
                decode(equals ? equals + 1 : "", value_length, value)) {
                read_pair(check, name, value);
            } else {
                add_fault(check, "query", "is wrongly percent-encoded");
            }
        }
        query += length + (query[length] == '&');
    }
}

static void check_body(struct check *check, const char *text, size_t length)
{
    json_error_t failure;
    if (!cv_json_is_shallow(text, length, BODY_DEPTH_MAX)) {
        add_fault(check, "body", "nests too deeply");
        return;
    }
    cv_auto(json_decref) json_t *body = json_loadb(text, length, JSON_REJECT_DUPLICATES, &failure);
    if (!body) {
        add_fault(check, "body", "must be a JSON object: %.120s", failure.text);
        return;
    }
    if (!json_is_object(body)) {
        add_fault(check, "body", "must be a JSON object");
        return;
    }
    const char *name;
    json_t *value;
    json_object_foreach(body, name, value)
    {
        const struct rule *rule = find_rule(check->operation, PLACE_BODY, name);
        if (rule) {
            check_json(check, rule, value);
        } else {
            add_fault(check, name, "is not a member of this body");
        }
    }
}

/* Requires what must be there, and gives the outcome to the caller. */
static int finish_check(struct check *check, json_t **ret_values, json_t **ret_faults,
                        struct cv_error *error)
{
    const struct operation *operation = check->operation;
    for (size_t i = 0; i < operation->rule_count && json_array_size(check->faults) == 0; i++) {
        const struct rule *rule = &operation->rules[i];
        if (rule->required && !json_object_get(check->values, rule->name)) {
            add_fault(check, rule->name, "is missing");
        }
    }
    CV_TRY_MEMORY(!check->out_of_memory, error, "a request's parameters");
    if (json_array_size(check->faults) > 0) {
        *ret_faults = json_incref(check->faults);
        return PARAMETERS_REFUSED;
    }
    *ret_values = json_incref(check->values);
    return 0;
}

int route_check(const struct operation *operation, const struct request_values *values,
                json_t **ret_values, json_t **ret_faults, struct cv_error *error)
{
    cv_auto(json_decref) json_t *checked = json_object();
    cv_auto(json_decref) json_t *faults = json_array();
    struct check check = {operation, checked, faults, !checked || !faults};
    if (!check.out_of_memory) {
        check_path(&check, values->path, values->path_length);
        check_query(&check, values->query);
        if (operation->has_body) {
            check_body(&check, values->body ? values->body : "", values->body_length);
        }
    }
    return finish_check(&check, ret_values, ret_faults, error);
}

int route_check_object(const struct operation *operation, const json_t *object, json_t **ret_values,
                       json_t **ret_faults, struct cv_error *error)
{
    const char *name;
    json_t *value;
    cv_auto(json_decref) json_t *checked = json_object();
    cv_auto(json_decref) json_t *faults = json_array();
    struct check check = {operation, checked, faults, !checked || !faults};
    json_object_foreach((json_t *)object, name, value)
    {
        const struct rule *rule = NULL;
        for (size_t i = 0; i < operation->rule_count && !rule; i++) {
            rule = strcmp(operation->rules[i].name, name) == 0 ? &operation->rules[i] : NULL;
        }
        if (check.out_of_memory) {
            break;
        }
        if (rule) {
            check_json(&check, rule, value);
        } else {
            add_fault(&check, name, "is not a parameter of this operation");
        }
    }
    return finish_check(&check, ret_values, ret_faults, error);
}
