#include "cli/commands/operation.h"

#include "cli/commands/server.h"
#include "cli/commands/verbs.h"

#include <string.h>

enum { PAGE_ITEMS = 200 }; /* the longest page that the API gives */

static const struct cli_operation *find_operation(const char *name)
{
    for (size_t i = 0; i < cli_operation_count; i++) {
        if (strcmp(cli_operations[i].name, name) == 0) {
            return &cli_operations[i];
        }
    }
    return NULL;
}

/* ---- in the database ------------------------------------------------------------------------- */

/* The settings that the gateway makes for an operator. The login of upkeep is no operator; it may
 * run the operations that are granted to cortana_upkeep. */
#define SETTINGS                                                                     \
    "SELECT set_config('request.jwt.claims', '{\"role\": \"service_role\"}', true)," \
    " set_config('timezone', 'UTC', true), set_config('role', CASE WHEN"             \
    " pg_has_role('service_role', 'MEMBER') THEN 'service_role' ELSE 'cortana_upkeep' END, true)"

static int ask_database(struct cli_call *call, const struct cli_operation *operation,
                        const json_t *values, json_t **ret_body, struct cv_error *error)
{
    struct cv_db *db = call->session.db;
    cv_auto_free char *sql = NULL;
    cv_auto_free char *text = json_dumps(values, JSON_COMPACT);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY_MEMORY(text, error, "a request");
    CV_TRY(cv_format(&sql, error, "SELECT status, body FROM api.%s($1::jsonb)", operation->name));
    int result =
        cv_db_query_after(db, CV_DB_STATEMENT(SETTINGS), CV_DB_STATEMENT(sql, text), &rows, error);
    if (result) {
        /* What the API answers with 404, and with 409. */
        const char *state = cv_db_sqlstate(db);
        error->type = strcmp(state, "P0002") == 0   ? CV_ERROR_NOT_FOUND
                      : strcmp(state, "55000") == 0 ? CV_ERROR_CONFLICT
                                                    : error->type;
        return strcmp(state, "23514") == 0 /* it names a constraint, which says nothing to users */
                   ? cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "a value is out of its range")
                   : result;
    }
    const char *body = cv_db_text(rows, 0, "body");
    call->status = cv_db_int(rows, 0, "status", 200);
    *ret_body = body ? json_loads(body, JSON_DECODE_ANY, NULL) : NULL;
    CV_TRY_MEMORY(!body || *ret_body, error, "an answer");
    return 0;
}

int cli_ask(struct cli_call *call, const char *operation, const json_t *values, json_t **ret_body,
            struct cv_error *error)
{
    const struct cli_operation *known = find_operation(operation);
    cv_auto(json_decref) json_t *body = NULL;
    cv_auto(json_decref) json_t *given = NULL;
    if (!known) {
        return cv_fail(error, CV_ERROR_INTERNAL, "the API has no operation %s", operation);
    }
    if (!values) {
        values = given = json_object();
        CV_TRY_MEMORY(given, error, "a request");
    }
    CV_TRY(call->server ? cli_server_ask(call->server, known, values, &call->status, &body, error)
                        : ask_database(call, known, values, &body, error));
    if (known->is_redacted && body) {
        CV_TRY(cv_redacted_json(body, ret_body, error));
    } else {
        *ret_body = cv_take(body);
    }
    return 0;
}

int cli_ask_items(struct cli_call *call, const char *operation, const json_t *values, int64_t limit,
                  json_t **ret_items, struct cv_error *error)
{
    cv_auto(json_decref) json_t *items = json_array();
    cv_auto(json_decref) json_t *asked = values ? json_copy((json_t *)values) : json_object();
    CV_TRY_MEMORY(items && asked, error, "a list");
    for (;;) {
        cv_auto(json_decref) json_t *body = NULL;
        int64_t left = limit - (int64_t)json_array_size(items);
        bool is_good = limit == 0 || json_object_set_new(
                                         asked, "limit",
                                         json_integer(left < PAGE_ITEMS ? left : PAGE_ITEMS)) == 0;
        CV_TRY_MEMORY(is_good, error, "a list");
        CV_TRY(cli_ask(call, operation, asked, &body, error));
        json_t *next = json_object_get(body, "next");
        CV_TRY_MEMORY(json_array_extend(items, json_object_get(body, "items")) == 0, error,
                      "a list");
        if (!json_is_string(next) || (int64_t)json_array_size(items) >= limit) {
            break;
        }
        CV_TRY_MEMORY(json_object_set(asked, "cursor", next) == 0, error, "a list");
    }
    *ret_items = cv_take(items);
    return 0;
}

int cli_ask_file(struct cli_call *call, const char *operation, const json_t *values,
                 cli_write *write, void *opaque, struct cv_error *error)
{
    return cli_server_read(call->server, find_operation(operation), values, NULL, write, opaque,
                           error);
}

/* ---- names ------------------------------------------------------------------------------------ */

int cli_find(struct cli_call *call, const char *kind, const char *name, char id[CLI_UUID_SIZE],
             struct cv_error *error)
{
    enum { ID_LETTERS_MIN = 4 }; /* fewer letters fit too many */
    bool is_video = strcmp(kind, "video") == 0;
    cv_auto(json_decref) json_t *body = NULL;
    cv_auto(json_decref) json_t *values = json_pack("{s:s, s:s}", "kind", kind, "name", name);
    CV_TRY_MEMORY(values, error, "a name");
    /* Of a job or a run the operation itself says whether there is one. */
    if (call->server && !is_video && strcmp(kind, "collection") != 0 && cv_is_uuid(name)) {
        (void)snprintf(id, CLI_UUID_SIZE, "%s", name);
        return 0;
    }
    if (!is_video && strcmp(kind, "collection") != 0 && strlen(name) < ID_LETTERS_MIN) {
        return cli_usage(call, "'%s': name a %s by its id or the first %d letters of it or more",
                         name, kind, ID_LETTERS_MIN);
    }
    int result = cli_ask(call, "find", values, &body, error);
    if (result && error->type == CV_ERROR_NOT_FOUND) {
        return is_video && strcmp(name, "last") == 0
                   ? cv_fail(error, CV_ERROR_NOT_FOUND, "there is no video yet")
               : is_video ? cv_fail(error, CV_ERROR_NOT_FOUND,
                                    "no video is '%s'; cortana videos lists them", name)
                          : cv_fail(error, CV_ERROR_NOT_FOUND, "no %s is called '%s'", kind, name);
    }
    const char *found = json_string_value(json_object_get(body, "id"));
    (void)snprintf(id, CLI_UUID_SIZE, "%s", found ? found : "");
    return result;
}

/* Finds the id of a trigger or a schedule by its name. */
static int find_trigger(struct cli_call *call, const char *kind, const char *name,
                        char id[CLI_UUID_SIZE], struct cv_error *error)
{
    cv_auto(json_decref) json_t *body = NULL;
    cv_auto(json_decref) json_t *values = json_pack(
        "{s:s, s:s}", "kind", strcmp(kind, "schedule") == 0 ? "schedule" : "event", "name", name);
    CV_TRY_MEMORY(values, error, "a name");
    CV_TRY(cli_ask(call, "triggers", values, &body, error));
    const char *found = json_string_value(cli_find_member(body, "items.0.id"));
    (void)snprintf(id, CLI_UUID_SIZE, "%s", found ? found : "");
    return found ? 0 : cv_fail(error, CV_ERROR_NOT_FOUND, "no %s is called '%s'", kind, name);
}

/* 0 if the job type exists; otherwise CLI_EXIT_USAGE after printing the existing ones. */
static int check_job_type(struct cli_call *call, const char *type, struct cv_error *error)
{
    size_t i;
    json_t *item;
    cv_auto(json_decref) json_t *items = NULL;
    cv_auto(cv_buffer_deinit) struct cv_buffer names = CV_BUFFER_INIT;
    CV_TRY(cli_ask_items(call, "job_types", NULL, 0, &items, error));
    json_array_foreach(items, i, item)
    {
        cv_buffer_printf(&names, "%s%s", i ? " " : "",
                         json_string_value(json_object_get(item, "name")));
    }
    CV_TRY_MEMORY(!names.failed, error, "the job types");
    const char *known = names.data ? names.data : "";
    const char *near = cli_did_you_mean(known, type);
    return cli_is_among(known, type)
               ? 0
               : cli_usage(call, "there is no job type '%s'%s%s%s; there are %s", type,
                           near[0] ? ": did you mean " : "", near, near[0] ? "?" : "", known);
}

/* ---- the command line ------------------------------------------------------------------------- */

enum { WORD_MAX = 64 };

/* One word of a row's `values`: SOURCE[>MEMBER][:KIND]. */
struct source {
    char text[WORD_MAX];
    const char *member;
    const char *kind;
};

static void read_source(const char *word, size_t length, struct source *source)
{
    (void)snprintf(source->text, sizeof(source->text), "%.*s", (int)length, word);
    char *colon = strchr(source->text, ':');
    char *arrow = strchr(source->text, '>');
    source->kind = colon ? colon + 1 : "";
    source->member = arrow ? arrow + 1 : source->text;
    if (colon) {
        *colon = '\0';
    }
    if (arrow) {
        *arrow = '\0';
    }
}

/* Reads --since as a time for PostgreSQL; CLI_EXIT_USAGE if it is invalid. */
static int read_since(const struct cli_call *call, const char *option, const char *text,
                      char timestamp[CV_TIMESTAMP_SIZE])
{
    static const struct {
        char unit;
        int64_t ms;
    } units[] = {{'m', 60000}, {'h', 3600000}, {'d', 86400000}, {'w', 604800000}};
    size_t length = strlen(text);
    for (size_t i = 0; length > 1 && length < 12 && i < CV_COUNT(units); i++) {
        char number[12];
        int64_t count = 0;
        (void)snprintf(number, sizeof(number), "%.*s", (int)length - 1, text);
        if (text[length - 1] == units[i].unit && cv_parse_int(number, 0, 100000, &count)) {
            (void)cv_format_timestamp(cv_wall_ms() - count * units[i].ms, timestamp);
            return 0;
        }
    }
    int year = 0;
    int month = 0;
    int day = 0;
    char rest = '\0';
    int found = sscanf(text, "%4d-%2d-%2d%c", &year, &month, &day, &rest);
    if (found < 3 || (found == 4 && rest != ' ' && rest != 'T') || month < 1 || month > 12 ||
        day < 1 || day > 31 || length >= CV_TIMESTAMP_SIZE) {
        return cli_usage(call,
                         "--%s takes a date like 2026-05-17 or a time ago like 30m, 2h, "
                         "3d, not '%s'",
                         option, text);
    }
    (void)snprintf(timestamp, CV_TIMESTAMP_SIZE, found == 3 ? "%.10sT00:00:00Z" : "%s", text);
    return 0;
}

static const char *given_value(const struct cli_call *call, const char *source)
{
    bool is_argument = source[0] >= '0' && source[0] <= '9';
    return source[0] == '=' ? source + 1
           : is_argument ? source[0] - '0' < call->count ? call->arguments[source[0] - '0'] : NULL
                         : cli_value(call, source);
}

int cli_read_file(const char *path, json_t **ret_value, struct cv_error *error)
{
    json_error_t reason;
    *ret_value = strcmp(path, "-") == 0 ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &reason)
                                        : json_load_file(path, JSON_REJECT_DUPLICATES, &reason);
    return *ret_value ? 0
                      : cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s, line %d: %s", path,
                                reason.line, reason.text);
}

static int read_json(struct cli_call *call, const struct source *source, const char *text,
                     json_t **ret_value, struct cv_error *error)
{
    json_error_t reason;
    *ret_value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &reason);
    if (!*ret_value || (strcmp(source->kind, "object") == 0 && !json_is_object(*ret_value))) {
        json_decref(*ret_value);
        *ret_value = NULL;
        bool is_argument = source->text[0] >= '0' && source->text[0] <= '9';
        return is_argument
                   ? cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "'%s' is not a json object", text)
                   : cli_usage(call, "--%s takes a JSON object, not '%s'", source->text, text);
    }
    return 0;
}

/* Reads a time as whole seconds or hours, none of them begun only. */
static int read_time(struct cli_call *call, const struct source *source, const char *text,
                     int64_t *ret_number)
{
    int64_t ms = 0;
    int64_t unit_ms = strcmp(source->kind, "hours") == 0 ? 3600000 : 1000;
    if (!cli_parse_time(text, &ms)) {
        return cli_usage(call, "--%s takes a time like 90s, 10m or 24h, not '%s'", source->text,
                         text);
    }
    *ret_number = (ms + unit_ms - 1) / unit_ms;
    return 0;
}

/* Reads a time of a video, or a length, in milliseconds. */
static int read_moment(struct cli_call *call, const struct source *source, const char *text,
                       int64_t *ret_ms)
{
    bool is_option = source->text[0] < '0' || source->text[0] > '9';
    return cli_parse_time(text, ret_ms) ? 0
           : is_option
               ? cli_usage(call, "--%s takes a time like 2, 0.5 or 500ms, not '%s'", source->text,
                           text)
               : cli_usage(call, "'%s' is not a time: 3.4 (seconds), 0:03.4, 1m2s or 3400ms", text);
}

/* Reads the ids of the videos that this argument and those behind it name. */
static int read_videos(struct cli_call *call, const struct source *source, json_t **ret_ids,
                       struct cv_error *error)
{
    cv_auto(json_decref) json_t *ids = json_array();
    for (int i = source->text[0] - '0'; i < call->count; i++) {
        char id[CLI_UUID_SIZE];
        CV_TRY(cli_find(call, "video", call->arguments[i], id, error));
        CV_TRY_MEMORY(json_array_append_new(ids, json_string(id)) == 0, error, "a list of videos");
    }
    *ret_ids = cv_take(ids);
    return 0;
}

/* Reads a part of a picture. */
static int read_crop(struct cli_call *call, const char *text, json_t **ret_crop)
{
    char rest;
    int width = 0, height = 0, x = 0, y = 0;
    if (sscanf(text, "%5dx%5d+%5d+%5d%c", &width, &height, &x, &y, &rest) != 4 || width <= 0) {
        return cli_usage(call, "--crop takes a part of the picture as WIDTHxHEIGHT+X+Y, not '%s'",
                         text);
    }
    *ret_crop = json_pack("{s:i, s:i, s:i, s:i}", "x", x, "y", y, "width", width, "height", height);
    return 0;
}

/* Adds the texts of one value, which commas separate, but for those in "quotes" and /expressions/. */
static int add_texts(json_t *list, const char *text)
{
    for (size_t length; *text; text += length, text += *text == ',') {
        char end[] = {text[0], ',', '\0'};
        const char *closed = text[0] == '"' || text[0] == '/' ? strstr(text + 1, end) : NULL;
        bool is_last = (text[0] == '"' || text[0] == '/') && !closed;
        length = closed ? (size_t)(closed + 1 - text) : is_last ? strlen(text) : strcspn(text, ",");
        if (length && json_array_append_new(list, json_stringn(text, length))) {
            return -1;
        }
    }
    return 0;
}

static int add_value(json_t *list, const char *text)
{
    return json_array_append_new(list, json_string(text));
}

/* Every value of an option, as `add` adds it; NULL: out of memory. */
static json_t *read_list(const struct cli_call *call, const char *option,
                         int (*add)(json_t *list, const char *text))
{
    const char *value;
    cv_auto(json_decref) json_t *list = json_array();
    for (size_t i = 0; list && (value = cli_value_at(call, option, i)); i++) {
        if (add(list, value)) {
            return NULL;
        }
    }
    return cv_take(list);
}

/* Makes the value of a parameter of its text. */
static int read_value(struct cli_call *call, const struct source *source, const char *text,
                      json_t **ret_value, struct cv_error *error)
{
    const char *kind = source->kind;
    char id[CLI_UUID_SIZE];
    char since[CV_TIMESTAMP_SIZE];
    int64_t number = 0;
    if (strcmp(kind, "json") == 0 || strcmp(kind, "object") == 0 || source->text[0] == '=') {
        return read_json(call, source, text, ret_value, error);
    } else if (strcmp(kind, "file") == 0) {
        return cli_read_file(text, ret_value, error);
    } else if (strcmp(kind, "number") == 0) {
        CV_TRY(cli_number(call, source->text, 1, 1000000, 0, &number));
        *ret_value = json_integer(number);
    } else if (strcmp(kind, "seconds") == 0 || strcmp(kind, "hours") == 0) {
        CV_TRY(read_time(call, source, text, &number));
        *ret_value = json_integer(number);
    } else if (strcmp(kind, "ms") == 0) {
        CV_TRY(read_moment(call, source, text, &number));
        *ret_value = json_integer(number);
    } else if (strcmp(kind, "crop") == 0) {
        CV_TRY(read_crop(call, text, ret_value));
    } else if (strcmp(kind, "videos") == 0) {
        CV_TRY(read_videos(call, source, ret_value, error));
    } else if (strcmp(kind, "list") == 0) {
        *ret_value = read_list(call, source->text, add_value);
    } else if (strcmp(kind, "texts") == 0) {
        *ret_value = read_list(call, source->text, add_texts);
    } else if (strcmp(kind, "flag") == 0 || strcmp(kind, "off") == 0) {
        *ret_value = json_boolean(strcmp(kind, "flag") == 0);
    } else if (strcmp(kind, "since") == 0) {
        CV_TRY(read_since(call, source->text, text, since));
        *ret_value = json_string(since);
    } else if (strcmp(kind, "tenant") == 0 && !cv_is_uuid(text) && strcmp(text, "default") != 0) {
        return cli_usage(call, "TENANT is a UUID, or default, not '%s'", text);
    } else if (strcmp(kind, "uuid") == 0 && !cv_is_uuid(text)) {
        return cli_usage(call, "%s%s takes a UUID, not '%s'", source->text[0] == '0' ? "" : "--",
                         source->text[0] == '0' ? call->verb->arguments : source->text, text);
    } else if (strcmp(kind, "type") == 0) {
        CV_TRY(check_job_type(call, text, error));
        *ret_value = json_string(text);
    } else if (strcmp(kind, "video") == 0 || strcmp(kind, "collection") == 0 ||
               strcmp(kind, "job") == 0 || strcmp(kind, "run") == 0) {
        CV_TRY(cli_find(call, kind, text, id, error));
        *ret_value = json_string(id);
    } else if (strcmp(kind, "trigger") == 0 || strcmp(kind, "schedule") == 0) {
        CV_TRY(find_trigger(call, kind, text, id, error));
        *ret_value = json_string(id);
    } else {
        *ret_value = json_string(text);
    }
    CV_TRY_MEMORY(*ret_value, error, "a value");
    return 0;
}

bool cli_set_member(json_t *object, const char *name, json_t *value)
{
    char outer[WORD_MAX];
    const char *dot = strchr(name, '.');
    if (!dot) {
        return json_object_set_new(object, name, value) == 0;
    }
    (void)snprintf(outer, sizeof(outer), "%.*s", (int)(dot - name), name);
    json_t *inner = json_object_get(object, outer);
    if (!inner) {
        inner = json_object();
        if (!inner || json_object_set_new(object, outer, inner)) {
            json_decref(value);
            return false;
        }
    }
    return json_object_set_new(inner, dot + 1, value) == 0;
}

int cli_read_values(struct cli_call *call, json_t **ret_values, struct cv_error *error)
{
    cv_auto(json_decref) json_t *values = json_object();
    CV_TRY_MEMORY(values, error, "a request");
    const char *words = call->verb->values ? call->verb->values : "";
    for (const char *w = words; *w; w += strcspn(w, " "), w += *w == ' ') {
        struct source source;
        json_t *value = NULL;
        read_source(w, strcspn(w, " "), &source);
        const char *text = given_value(call, source.text);
        if (strcmp(source.kind, "unless") == 0) {
            (void)snprintf(source.text, sizeof(source.text), "=");
            text = text ? NULL : "true";
        } else if (strcmp(source.kind, "limit") == 0 && text && strcmp(text, "none") == 0) {
            text = NULL;
        }
        if (text) {
            CV_TRY(read_value(call, &source, text, &value, error));
            bool is_all = strcmp(source.member, "*") == 0;
            if (is_all && !json_is_object(value)) {
                json_decref(value);
                return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s holds no JSON object", text);
            }
            CV_TRY_MEMORY(is_all ? json_object_update_new(values, value) == 0
                                 : cli_set_member(values, source.member, value),
                          error, "a request");
        }
    }
    for (int i = 1; call->verb->settings && i < call->count; i++) {
        CV_TRY(cli_read_setting(call, call->arguments[i], values, error));
    }
    *ret_values = cv_take(values);
    return 0;
}

/* ---- verbs that are one operation ------------------------------------------------------------- */

static size_t count_columns(const struct cli_column *columns)
{
    size_t count = 0;
    while (columns[count].title) {
        count++;
    }
    return count;
}

static int list_items(struct cli_call *call, const json_t *values, struct cv_error *error)
{
    const struct cli_verb *verb = call->verb;
    cv_auto(json_decref) json_t *items = NULL;
    int64_t limit = json_integer_value(json_object_get(values, "limit"));
    CV_TRY(cli_ask_items(call, verb->operation, values, limit, &items, error));
    CV_TRY(cli_put_items(call, items, verb->columns, count_columns(verb->columns), error));
    if (verb->note && json_array_size(items) == 0) {
        cli_print_note(call, "%s", verb->note);
    }
    return 0;
}

/* Prints each field that is not empty, on a line of its own. */
static int print_fields(const json_t *object, const struct cli_column *fields,
                        struct cv_error *error)
{
    cv_auto(json_decref) json_t *shown = NULL;
    CV_TRY(cv_redacted_json(object, &shown, error));
    for (const struct cli_column *field = fields; field->title; field++) {
        cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
        cli_expand(&text, field->name, shown, false);
        CV_TRY_MEMORY(!text.failed, error, "a field");
        if (text.length > 0) {
            (void)printf("%-14s ", field->title);
            cli_put(stdout, text.data);
            (void)putchar('\n');
        }
    }
    return 0;
}

/* Prints the lists of `also` (of the thing, if that is not NULL), whose columns stand one behind the
 * other; as JSON they become members of the thing. */
static int put_lists(struct cli_call *call, const json_t *values, json_t *thing,
                     const struct cli_column *columns, struct cv_error *error)
{
    const char *also = call->verb->also ? call->verb->also : "";
    for (const char *w = also; *w; w += strcspn(w, " "), w += *w == ' ') {
        char name[WORD_MAX];
        size_t count = count_columns(columns);
        cv_auto(json_decref) json_t *items = NULL;
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(w, " "), w);
        if (name[0] == '.') {
            items = json_incref(json_object_get(thing, name + 1));
        } else {
            CV_TRY(cli_ask_items(call, name, values, 0, &items, error));
        }
        if (call->json) {
            const char *member = name + (name[0] == '.');
            CV_TRY_MEMORY(json_object_set(thing, member, items) == 0, error, "an answer");
        } else {
            (void)putchar('\n');
            CV_TRY(cli_put_items(call, items, columns, count, error));
        }
        columns += count + 1;
    }
    return 0;
}

static int show_thing(struct cli_call *call, const json_t *values, json_t *thing,
                      struct cv_error *error)
{
    const struct cli_verb *verb = call->verb;
    CV_TRY(call->json     ? 0
           : verb->fields ? print_fields(thing, verb->fields, error)
                          : cli_put_json(thing, error));
    CV_TRY(put_lists(call, values, thing, verb->columns, error));
    if (!call->json) {
        return 0;
    }
    cv_auto(json_decref) json_t *things = json_pack("[O]", thing);
    CV_TRY_MEMORY(things, error, "an answer");
    return cli_print_objects(things, error);
}

/* Prints the answer of an operation that changes something: as the sentence of the verb's row, made
 * of the arguments ({0}, {1}), the parameters and the answer; or as JSON. */
static int print_answer(struct cli_call *call, const json_t *values, const json_t *body,
                        struct cv_error *error)
{
    const struct cli_verb *verb = call->verb;
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer note = CV_BUFFER_INIT;
    cv_auto(json_decref) json_t *known = json_copy((json_t *)values);
    CV_TRY_MEMORY(known, error, "an answer");
    for (int i = 0; i < call->count; i++) {
        char name[] = {(char)('0' + i), '\0'};
        CV_TRY_MEMORY(json_object_set_new(known, name, json_string(call->arguments[i])) == 0, error,
                      "an answer");
    }
    CV_TRY_MEMORY((!json_is_object(body) || json_object_update(known, (json_t *)body) == 0) &&
                      json_object_set_new(known, "status_code", json_integer(call->status)) == 0,
                  error, "an answer");
    cli_expand(&text, verb->done, known, false);
    cli_expand(&note, verb->note ? verb->note : "", known, false);
    CV_TRY_MEMORY(!text.failed && text.data && !note.failed, error, "an answer");
    const char *outcome = json_string_value(json_object_get(body, "outcome"));
    if (outcome && strcmp(outcome, "failed") == 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s", text.data);
    }
    CV_TRY(cli_print_outcome(
        call, json_is_object(body) ? json_deep_copy(body) : json_copy((json_t *)values), error,
        "%s", text.data));
    if (verb->note) {
        cli_print_note(call, "%s", note.data ? note.data : "");
    }
    return 0;
}

int cli_put_json(const json_t *value, struct cv_error *error)
{
    cv_auto_free char *text = NULL;
    cv_auto(json_decref) json_t *shown = NULL;
    CV_TRY(cv_redacted_json(value, &shown, error));
    text = json_dumps(shown, JSON_INDENT(4) | JSON_ENCODE_ANY);
    CV_TRY_MEMORY(text, error, "an answer");
    (void)puts(text);
    return 0;
}

int cli_run_operation(struct cli_call *call, struct cv_error *error)
{
    const struct cli_verb *verb = call->verb;
    bool is_list = verb->columns && !verb->fields && !verb->shows;
    cv_auto(json_decref) json_t *values = NULL;
    cv_auto(json_decref) json_t *body = NULL;
    CV_TRY(cli_read_values(call, &values, error));
    int result = is_list ? list_items(call, values, error)
                         : cli_ask(call, verb->operation, values, &body, error);
    const json_t *shown = result || !verb->shows ? NULL
                          : verb->shows[0]       ? cli_find_member(body, verb->shows)
                                                 : body;
    bool is_missing = result ? error->type == CV_ERROR_NOT_FOUND : verb->shows && !shown;
    if (is_missing && verb->thing) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "no %s is called '%s'", verb->thing,
                       call->arguments[0]);
    }
    if (result) {
        return result;
    } else if (is_list) {
        const struct cli_column *further = verb->columns + count_columns(verb->columns) + 1;
        return put_lists(call, values, NULL, further, error);
    } else if (verb->fields || (verb->shows && verb->also)) {
        return show_thing(call, values, body, error);
    }
    return verb->shows ? cli_put_json(shown, error) : print_answer(call, values, body, error);
}

int cli_request(struct cli_call *call, struct cv_error *error)
{
    CV_TRY(cli_open(call, error));
    for (int i = 0; call->verb->each && i < call->count; i++) {
        struct cli_call one = *call;
        one.arguments = call->arguments + i;
        one.count = 1;
        CV_TRY(cli_run_operation(&one, error));
        (void)fflush(stdout);
    }
    return call->verb->each ? 0 : cli_run_operation(call, error);
}
