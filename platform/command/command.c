#include "platform/command/command.h"

#include "common/base/base.h"
#include "common/db/db.h"

#include "platform/command/program.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

struct command_plan {
    char *program;      /* an absolute path */
    char **argv;        /* NULL-terminated */
    char **environment; /* NULL-terminated */
    int64_t time_limit_ms;
};

/* ---- the plan ------------------------------------------------------------------------------------ */

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++) {
        free(list[i]);
    }
    free(list);
}

static void command_plan_deinit(struct command_plan *plan)
{
    free(plan->program);
    free_list(plan->argv);
    free_list(plan->environment);
    *plan = (struct command_plan){0};
}
CV_DEFINE_CLEANUP_ADDRESS(struct command_plan, command_plan_deinit)

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

/* Asks the database (plan_command), which validates the payload again; a refusal is
 * CV_ERROR_INVALID_PAYLOAD. The program "cortana" is the one installed beside this worker. The
 * environment is PATH, LANG, HOME and TMPDIR (`scratch`), and the variables of this process that
 * the definition names. */
static int command_plan_make(struct cv_db *db, const json_t *payload, const char *scratch,
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

enum {
    OUTPUT_MAX =
        60 << 10, /* a job's result has 64 KiB, and contains a little more than the output */
    TAIL_MAX = 8 << 10,
};

/* Exit statuses that a retry would not change: a wrong command line, wrong data, a missing
 * program. Other failures may be the fault of the network or the disk. */
static bool is_permanent(int code)
{
    static const int permanent[] = {EX_USAGE,  EX_DATAERR, EX_NOUSER, EX_NOHOST,
                                    EX_NOPERM, EX_CONFIG,  126,       127};
    for (size_t i = 0; i < CV_COUNT(permanent); i++) {
        if (permanent[i] == code) {
            return true;
        }
    }
    return false;
}

static int judge(int status, struct cv_error *error)
{
    if (WIFSIGNALED(status)) {
        return cv_fail(error, CV_ERROR_STAGE_CRASHED, "the program died of signal %d",
                       WTERMSIG(status));
    }
    int code = WEXITSTATUS(status);
    if (code == 0) {
        return 0;
    }
    return cv_fail(error, is_permanent(code) ? CV_ERROR_INVALID_PAYLOAD : CV_ERROR_SERVER,
                   "the program ended with status %d", code);
}

/* The output as the job's result: a JSON object as it is, anything else as its member "output". */
static int describe(const struct cv_buffer *output, json_t **ret_result, struct cv_error *error)
{
    const char *text = output->data ? output->data : "";
    cv_auto(json_decref) json_t *printed = json_loadb(text, output->length, JSON_DECODE_ANY, NULL);
    if (!json_is_object(printed)) {
        json_t *value = printed;
        printed = NULL;
        if (!value) {
            size_t length = output->length;
            while (length > 0 && text[length - 1] == '\n') {
                length--;
            }
            value = length ? json_stringn(text, length) : json_null();
        }
        if (!value) {
            return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "the program prints no UTF-8");
        }
        printed = json_pack("{s:o}", "output", value);
    }
    *ret_result = printed ? json_pack("{s:O}", "summary", printed) : NULL;
    return *ret_result ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the result");
}

/* The end of the program's output as text. */
static int record_end(struct cv_stage_context *context, const struct program_end *end,
                      const struct cv_buffer *output, struct cv_error *error)
{
    char tail[TAIL_MAX + 1];
    size_t length = output->length < TAIL_MAX ? output->length : TAIL_MAX;
    const char *from = output->data ? output->data + output->length - length : "";
    while (length > 0 && length < output->length && ((unsigned char)*from & 0xc0) == 0x80) {
        from++; /* skip the rest of a character that was cut */
        length--;
    }
    for (size_t i = 0; i < length; i++) {
        tail[i] = (char)(from[i] ? from[i] : ' ');
    }
    tail[length] = '\0';
    const struct cv_program_end noted = {
        .pid = end->pid,
        .exit_code = end->has_status && WIFEXITED(end->status) ? WEXITSTATUS(end->status) : -1,
        .output = tail,
    };
    return cv_stage_record_program(context, &noted, error);
}

int command_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
                struct cv_error *error)
{
    const char *scratch = cv_stage_scratch(context);
    cv_auto(command_plan_deinit) struct command_plan plan = {0};
    cv_auto(command_files_deinit) struct command_files files = {0};
    cv_auto(cv_buffer_deinit) struct cv_buffer output = CV_BUFFER_INIT;
    struct program_end end;
    CV_TRY(command_plan_make(cv_stage_db(context), payload, scratch, &plan, error));
    CV_TRY(command_files_fetch(context, cv_env("CORTANA_JOB_ID", NULL), &files, error));
    cv_stage_progress(context, 0, json_string_value(json_object_get(payload, "command")));
    const struct program_params params = {
        .program = plan.program,
        .argv = plan.argv,
        .environment = plan.environment,
        .directory = scratch,
        .time_limit_ms = plan.time_limit_ms,
        .output_max = OUTPUT_MAX,
        .cancel = cv_stage_cancel(context),
    };
    int result = program_run(&params, &output, &end, error);
    result = result ? result : judge(end.status, error);
    struct cv_error reason;
    if (end.pid > 0 && record_end(context, &end, &output, &reason) != 0) {
        cv_log_error(&reason, "how the program ended is not noted");
    }
    result = result ? result : command_files_keep(context, &files, error);
    return result ? result : describe(&output, ret_result, error);
}
