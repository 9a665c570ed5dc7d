#include "workers/command/command.h"

#include "workers/command/files.h"
#include "workers/command/plan.h"
#include "workers/command/program.h"

#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

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
static int note_end(struct cv_stage_context *context, const struct program_end *end,
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
    return cv_stage_note_program(context, &noted, error);
}

int command_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
                struct cv_error *error)
{
    const char *scratch = cv_stage_scratch(context);
    cv_auto(command_plan_deinit) struct command_plan plan = {0};
    cv_auto(command_files_deinit) struct command_files files = {0};
    cv_auto(cv_buffer_deinit) struct cv_buffer output = CV_BUFFER_INIT;
    struct program_end end;
    int result = command_plan_make(cv_stage_db(context), payload, scratch, &plan, error);
    result = result ? result
                    : command_files_fetch(context, cv_env("CORTANA_JOB_ID", NULL), &files, error);
    if (result) {
        return result;
    }
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
    result = program_run(&params, &output, &end, error);
    result = result ? result : judge(end.status, error);
    struct cv_error reason;
    if (end.pid > 0 && note_end(context, &end, &output, &reason) != 0) {
        cv_log_error(&reason, "how the program ended is not noted");
    }
    result = result ? result : command_files_keep(context, &files, error);
    return result ? result : describe(&output, ret_result, error);
}
