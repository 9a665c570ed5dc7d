#include "gateway/agents.h"

#include "gateway/caller.h"

#include <string.h>

static const enum step answered[] = {STEP_AGENT, STEP_SEND};
static const enum step answered_to_key[] = {STEP_AGENT, STEP_CONFIRM, STEP_SEND};
static const enum step of_operation[] = {STEP_AGENT, STEP_DATABASE, STEP_GRANTS, STEP_SEND};
static const enum step with_picture[] = {STEP_AGENT,      STEP_DATABASE, STEP_GRANTS,
                                         STEP_AGENT_NEXT, STEP_DATABASE, STEP_AGENT_PICTURE,
                                         STEP_SEND};
static const enum step waiting[] = {STEP_AGENT,    STEP_DATABASE, STEP_GRANTS, STEP_AGENT_NEXT,
                                    STEP_DATABASE, STEP_GRANTS,   STEP_SEND};

static void set_operation(struct exchange *exchange, const struct operation *operation,
                          json_t *values)
{
    json_decref(exchange->values);
    exchange->values = values;
    exchange->operation = operation;
    exchange->access = strcmp(operation->method, "GET") == 0 ? ACCESS_READ : ACCESS_WRITE;
}

/* Answers the message without an operation; who has an API key is told only if it is valid. */
static void answer_at_once(struct exchange *exchange)
{
    exchange->access = ACCESS_READ; /* nothing changes */
    exchange->answer.status = exchange->call->id ? 200 : 202;
    exchange->at = exchange->principal.key_digest[0] ? answered_to_key : answered;
}

static void begin_operation(struct exchange *exchange)
{
    struct cv_error error;
    json_t *values = NULL;
    json_t *faults = NULL;
    const struct mcp_call *call = exchange->call;
    const struct operation *operation = route_named(call->operation);
    int result = operation ? route_check_object(operation, call->values, &values, &faults, &error)
                           : cv_fail(&error, CV_ERROR_INTERNAL, "no operation %s", call->operation);
    if (result == PARAMETERS_REFUSED) {
        exchange_refuse_faults(exchange, REFUSE_BAD_REQUEST, "the arguments are wrong", faults);
        json_decref(faults);
        return;
    }
    if (result) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
        return;
    }
    set_operation(exchange, operation, values);
    exchange->at = !call->next                        ? of_operation
                   : strcmp(call->next, "frame") == 0 ? with_picture
                                                      : waiting;
    if (!exchange->principal.key_digest[0]) {
        admission_check_rights(exchange);
    }
}

void agents_read(struct exchange *exchange)
{
    struct cv_error error;
    const char *version = exchange_header(exchange, "MCP-Protocol-Version");
    if (version && !mcp_knows_version(version)) {
        exchange_refuse(exchange, REFUSE_BAD_REQUEST,
                        "MCP-Protocol-Version names a version that is not spoken here");
    } else if (mcp_read(exchange->values, &exchange->call, &error) != 0) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
    } else if (exchange->call->operation) {
        begin_operation(exchange);
    } else {
        answer_at_once(exchange);
    }
}

void agents_go_on(struct exchange *exchange)
{
    static const enum step over[] = {STEP_AGENT_NEXT, STEP_SEND};
    const struct operation *operation = route_named(exchange->call->next);
    cv_auto(json_decref) json_t *body = answer_json(&exchange->answer);
    json_t *values = operation ? mcp_next(exchange->call, body) : NULL;
    if (!values) {
        exchange->at = over;
        return;
    }
    answer_deinit(&exchange->answer);
    set_operation(exchange, operation, values);
}

int agents_add_picture(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(json_decref) json_t *body = answer_json(&exchange->answer);
    return mcp_add_picture(exchange->call, store, body, error);
}

void agents_answer(struct exchange *exchange)
{
    const struct mcp_call *call = exchange->call;
    unsigned status = exchange->answer.status;
    if (!call || status == 401 || !call->id) {
        return;
    }
    cv_auto(json_decref) json_t *body = answer_json(&exchange->answer);
    cv_auto(json_decref) json_t *message =
        call->answer ? json_incref(call->answer) : mcp_answer(call, status, body);
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    answer_deinit(&exchange->answer);
    if (!text) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
        return;
    }
    exchange->answer.status = 200;
    answer_set_body(&exchange->answer, text);
}
