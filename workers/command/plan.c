#include "workers/command/plan.h"

#include <limits.h>
#include <string.h>

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++) {
        free(list[i]);
    }
    free(list);
}

void command_plan_deinit(struct command_plan *plan)
{
    free(plan->program);
    free_list(plan->argv);
    free_list(plan->environment);
    *plan = (struct command_plan){0};
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Converts a JSON list of texts to a NULL-terminated array; refuses a text that cannot be an
 * argument. */
static int read_list(const char *text, char ***ret_list, struct cv_error *error)
{
    cv_auto(json_decref) json_t *list = json_loads(text, JSON_ALLOW_NUL, NULL);
    size_t count = json_array_size(list);
    char **found = calloc(count + 1, sizeof(*found));
    for (size_t i = 0; found && i < count; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *value = json_string_value(entry);
        if (value && strlen(value) != json_string_length(entry)) {
            free_list(found);
            return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "argument %zu holds a NUL", i);
        }
        found[i] = value ? strdup(value) : NULL;
        if (!found[i]) {
            free_list(found);
            found = NULL;
        }
    }
    *ret_list = found;
    return found ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for arguments");
}

/* The path of `cortana` in this worker's installation, wherever that is. */
static int find_program(const char *name, char **ret_path, struct cv_error *error)
{
    char path[PATH_MAX];
    bool is_ours = strcmp(name, "cortana") == 0;
    CV_TRY(is_ours ? cv_find_program(name, path, sizeof(path), error) : 0);
    return cv_format(ret_path, error, "%s", is_ours ? path : name);
}

/* ---- environment ----------------------------------------------------------------------------- */

static bool is_wanted(const char *entry, char *const *names)
{
    size_t length = strcspn(entry, "=");
    for (size_t i = 0; names[i]; i++) {
        size_t name_length = strlen(names[i]);
        bool is_prefix = name_length > 0 && names[i][name_length - 1] == '*';
        if (is_prefix ? strncmp(entry, names[i], name_length - 1) == 0
                      : name_length == length && strncmp(entry, names[i], length) == 0) {
            return true;
        }
    }
    return false;
}

static int make_environment(const char *names_text, const char *scratch, char ***ret_environment,
                            struct cv_error *error)
{
    enum { FIXED = 4 };
    char **names = NULL;
    CV_TRY(read_list(names_text, &names, error));
    size_t count = 0;
    while (environ[count]) {
        count++;
    }
    char **found = calloc(count + FIXED + 1, sizeof(*found));
    if (!found) {
        free_list(names);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for an environment");
    }
    size_t used = 0;
    int result = cv_format(&found[used++], error, "PATH=/usr/local/bin:/usr/bin:/bin");
    result = result ? result : cv_format(&found[used++], error, "LANG=C.UTF-8");
    result = result ? result : cv_format(&found[used++], error, "HOME=%s", scratch);
    result = result ? result : cv_format(&found[used++], error, "TMPDIR=%s", scratch);
    for (size_t i = 0; result == 0 && i < count; i++) {
        if (is_wanted(environ[i], names)) {
            result = cv_format(&found[used++], error, "%s", environ[i]);
        }
    }
    free_list(names);
    if (result) {
        free_list(found);
        return result;
    }
    *ret_environment = found;
    return 0;
}

/* ---- the plan -------------------------------------------------------------------------------- */

int command_plan_make(struct cv_db *db, const json_t *payload, const char *scratch,
                      struct command_plan *ret_plan, struct cv_error *error)
{
    cv_auto_free char *text = json_dumps(payload, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "a payload");
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error,
                     "SELECT to_jsonb(argv) AS argv, to_jsonb(environment) AS environment,"
                     " time_limit_ms FROM plan_command($1::jsonb)",
                     text));
    cv_auto(command_plan_deinit) struct command_plan plan = {
        .time_limit_ms = cv_db_int(rows, 0, "time_limit_ms", 0)};
    CV_TRY(read_list(cv_db_text(rows, 0, "argv"), &plan.argv, error));
    if (!plan.argv[0]) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "the command names no program");
    }
    CV_TRY(find_program(plan.argv[0], &plan.program, error));
    CV_TRY(make_environment(cv_db_text(rows, 0, "environment"), scratch, &plan.environment, error));
    *ret_plan = plan;
    plan = (struct command_plan){0};
    return 0;
}
