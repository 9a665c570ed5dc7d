/* cortana mcp: the Model Context Protocol over standard input and output, a message a line. With --server
 * the messages go to that server as they are. */
#include "common/mcp/mcp.h"

#include "common/queue/queue.h"

#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <string.h>

enum {
    CLIP_WAIT_MS = 30 * 1000,
    CLIP_POLL_MS = 250,
};

/* Runs an operation; what it refuses becomes a body for mcp_answer. */
static int ask(struct cli_call *call, const char *operation, const json_t *values,
               unsigned *ret_status, json_t **ret_body, struct cv_error *error)
{
    int result = cli_ask(call, operation, values, ret_body, error);
    if (result >= 0) {
        *ret_status = (unsigned)call->status;
        return 0;
    }
    if (error->type == CV_ERROR_OUT_OF_MEMORY) {
        return result;
    }
    *ret_status = error->type == CV_ERROR_NOT_FOUND ? 404 : 400;
    *ret_body = json_pack("{s:s}", "detail", error->message);
    CV_TRY_MEMORY(*ret_body, error, "an answer");
    return 0;
}

static bool has_ended(const json_t *clip)
{
    const char *state = json_string_value(json_object_get(clip, "state"));
    return !state || cv_queue_is_over(state);
}

/* Asks for a clip until it is made, or for as long as the API waits. */
static int wait_for_clip(struct cli_call *call, const json_t *values, unsigned *ret_status,
                         json_t **ret_body, struct cv_error *error)
{
    int64_t end_ms = cv_monotonic_ms() + CLIP_WAIT_MS;
    CV_TRY(ask(call, "clip", values, ret_status, ret_body, error));
    while (!has_ended(*ret_body) && cv_monotonic_ms() < end_ms) {
        json_decref(*ret_body);
        *ret_body = NULL;
        if (cv_cancel_wait(call->cancel, CLIP_POLL_MS)) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped while a clip was made");
        }
        CV_TRY(ask(call, "clip", values, ret_status, ret_body, error));
    }
    return 0;
}

static int run_call(struct cli_call *call, struct mcp_call *asked, json_t **ret_answer,
                    struct cv_error *error)
{
    unsigned status = 0;
    const char *next = asked->next;
    cv_auto(json_decref) json_t *body = NULL;
    cv_auto(json_decref) json_t *second = NULL;
    CV_TRY(ask(call, asked->operation, asked->values, &status, &body, error));
    cv_auto(json_decref) json_t *values = status < 300 ? mcp_next(asked, body) : NULL;
    if (values && strcmp(next, "clip") == 0) {
        CV_TRY(wait_for_clip(call, values, &status, &second, error));
    } else if (values) {
        CV_TRY(ask(call, next, values, &status, &second, error));
        CV_TRY(mcp_add_picture(asked, call->session.store, second, error));
    }
    *ret_answer = mcp_answer(asked, status, second ? second : body);
    CV_TRY_MEMORY(*ret_answer, error, "an answer");
    return 0;
}

/* *ret_answer is NULL if the message gets no answer. */
static int answer(struct cli_call *call, const char *line, json_t **ret_answer,
                  struct cv_error *error)
{
    cv_auto(mcp_call_free) struct mcp_call *asked = NULL;
    cv_auto(json_decref) json_t *message = json_loads(line, 0, NULL);
    if (message && call->server) {
        return cli_ask(call, "mcp", message, ret_answer, error);
    }
    CV_TRY(mcp_read(message, &asked, error));
    *ret_answer = json_incref(asked->answer);
    return asked->operation ? run_call(call, asked, ret_answer, error) : 0;
}

int cli_mcp(struct cli_call *call, struct cv_error *error)
{
    cv_auto_free char *line = NULL;
    size_t size = 0;
    CV_TRY(cli_open(call, error));
    while (getline(&line, &size, stdin) >= 0) {
        cv_auto(json_decref) json_t *message = NULL;
        CV_TRY(answer(call, line, &message, error));
        if (message && (json_dumpf(message, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF ||
                        fflush(stdout) != 0)) {
            return cv_fail_errno(error, errno, "cannot write an answer");
        }
    }
    return CLI_EXIT_OK;
}
