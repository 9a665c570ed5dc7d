#include "workers/command/command.h"

#include "workers/command/plan.h"
#include "workers/command/program.h"

#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

CV_DEFINE_CLEANUP(json_t *, json_decref)

enum { OUTPUT_MAX = 1 << 20 };

/* Statuses that another try does not change: a wrong command line, wrong data, a missing program. The
 * others may have been the network's or the disk's fault. */
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

/* What was printed, as the job's result: an object as it is, anything else as its "output". */
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

int command_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
                struct cv_error *error)
{
    const char *scratch = cv_stage_scratch(context);
    cv_auto(command_plan_deinit) struct command_plan plan = {0};
    cv_auto(cv_buffer_deinit) struct cv_buffer output = CV_BUFFER_INIT;
    int status = 0;
    int result = command_plan_make(cv_stage_db(context), payload, scratch, &plan, error);
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
    result = program_run(&params, &output, &status, error);
    result = result ? result : judge(status, error);
    return result ? result : describe(&output, ret_result, error);
}
