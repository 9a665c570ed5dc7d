#include "common/queue/queue.h"

#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <string.h>

enum { WAIT_POLL_MS = 200 };

/* ---- commands -------------------------------------------------------------------------------- */

/* Waits until the job has ended; prints its result on standard output. */
static int wait_for(struct cli_call *call, const char *job_id, struct cv_error *error)
{
    cv_auto(json_decref) json_t *values = json_pack("{s:s}", "id", job_id);
    CV_TRY_MEMORY(values, error, "a request");
    for (;;) {
        cv_auto(json_decref) json_t *job = NULL;
        CV_TRY(cli_ask(call, "job", values, &job, error));
        const char *state = json_string_value(json_object_get(job, "state"));
        if (state && strcmp(state, "done") == 0) {
            const json_t *result = json_object_get(job, "result");
            cv_auto_free char *text =
                json_dumps(json_is_null(result) ? values : result, JSON_COMPACT | JSON_ENCODE_ANY);
            CV_TRY_MEMORY(text, error, "the result");
            (void)puts(json_is_null(result) ? "{}" : text);
            return 0;
        }
        if (cv_queue_is_over(state)) {
            const char *message = json_string_value(cli_find_member(job, "error.message"));
            return cv_fail(error, CV_ERROR_SERVER, "job %s: %s", job_id, message ? message : state);
        }
        if (cv_cancel_wait(call->cancel, WAIT_POLL_MS)) {
            return CLI_EXIT_INTERRUPTED;
        }
    }
}

int cli_commands_run(struct cli_call *call, struct cv_error *error)
{
    cv_auto(json_decref) json_t *values = NULL;
    cv_auto(json_decref) json_t *body = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_read_values(call, &values, error));
    CV_TRY(cli_ask(call, "create_job", values, &body, error));
    const char *job_id = json_string_value(json_object_get(body, "id"));
    return cli_given(call, "wait")
               ? wait_for(call, job_id, error)
               : cli_print_outcome(call, json_pack("{s:s}", "job", job_id), error, "%s", job_id);
}
