#include "gateway/admission.h"

#include "gateway/caller.h"

#include <string.h>

static const struct cv_metric auth_failures =
    CV_COUNTER("cortana_api_auth_failures_total", "Credentials that were refused.", "reason");
static const struct cv_metric rate_limited =
    CV_COUNTER("cortana_api_rate_limited_total",
               "Requests that were refused because their caller has asked too often.", "class");

/* ---- the address --------------------------------------------------------------------------------- */

struct header_lines {
    const char *name;
    char text[1024];
};

static enum MHD_Result join_line(void *opaque, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    struct header_lines *lines = opaque;
    size_t used = strlen(lines->text);
    (void)kind;
    if (value && strcasecmp(name, lines->name) == 0) {
        size_t length = strlen(value);
        if (used + length + 2 > sizeof(lines->text)) {
            /* The end of the list matters, so earlier lines are dropped if there is no room. */
            lines->text[0] = '\0';
            used = 0;
            value += length < sizeof(lines->text) - 2 ? 0 : length - (sizeof(lines->text) - 2);
        }
        (void)snprintf(lines->text + used, sizeof(lines->text) - used, "%s%s", used ? "," : "",
                       value);
    }
    return MHD_YES;
}

static void find_address(const struct admission *admission, struct exchange *exchange)
{
    struct header_lines lines = {
        .name = admission->forwarded == FORWARDED_STANDARD ? "Forwarded" : "X-Forwarded-For"};
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (admission->proxies.count > 0) {
        (void)MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, join_line, &lines);
    }
    if (info) {
        address_find(info->client_addr, lines.text, admission->forwarded, &admission->proxies,
                     exchange->address);
    }
}

/* ---- limits -------------------------------------------------------------------------------------- */

static void refuse_as_too_often(const struct admission *admission, struct exchange *exchange)
{
    exchange->answer.retry_after_s = exchange->rate.retry_s;
    exchange_refuse(exchange, 429, "too-many", "Too much at once",
                    "you ask too often: wait for as long as the header Retry-After says");
    cv_metric_add(admission->metrics, &rate_limited,
                  CV_LABELS(rate_class_name(exchange->rate.class)), 1);
}

/* Limits failed credentials per address: who guesses waits longer and longer between two guesses. */
static bool may_try_credentials(const struct admission *admission, struct exchange *exchange)
{
    char network[ADDRESS_TEXT_SIZE];
    limits_network(exchange->address, network);
    struct rate_state state = limits_look(admission->limits, RATE_FAILURE, network);
    if (!state.is_over) {
        return true;
    }
    exchange->rate = state;
    refuse_as_too_often(admission, exchange);
    return false;
}

static void note_fault(const struct admission *admission, const struct exchange *exchange,
                       const char *fault)
{
    char network[ADDRESS_TEXT_SIZE];
    if (fault) {
        limits_network(exchange->address, network);
        (void)limits_take(admission->limits, RATE_FAILURE, network);
        cv_metric_add(admission->metrics, &auth_failures, CV_LABELS(fault), 1);
    }
}

/* Callers who are not signed in, or whose key has not been looked up yet, are counted by address. */
static void take_from_limit(const struct admission *admission, struct exchange *exchange)
{
    char network[ADDRESS_TEXT_SIZE];
    const struct principal *principal = &exchange->principal;
    const char *name = principal->name;
    if (principal->key_digest[0]) {
        name = principal->key_digest;
    } else if (principal->role == CALLER_NOBODY) {
        limits_network(exchange->address, network);
        name = network;
    }
    exchange->rate = limits_take(admission->limits, exchange->operation->rate, name);
    if (exchange->rate.is_over) {
        refuse_as_too_often(admission, exchange);
    }
}

/* ---- the rights of the caller ---------------------------------------------------------------- */

static void check_rights(struct exchange *exchange)
{
    static const char *const needed[] = {
        [CALLER_EDITOR] = "this needs the role editor",
        [CALLER_ADMIN] = "this needs the role admin",
        [CALLER_OPERATOR] = "this is for operators",
        [CALLER_SERVICE] = "this is the service's",
    };
    enum caller_role least = exchange->operation->least_role;
    if (least > CALLER_NOBODY && exchange->principal.role == CALLER_NOBODY) {
        exchange_refuse(exchange, 401, "unauthorized", "Sign in",
                        "this needs a token: send Authorization: Bearer …");
    } else if (exchange->principal.role < least) {
        exchange_refuse(exchange, 403, "forbidden", "You may not do this", needed[least]);
    }
}

void admission_check(const struct admission *admission, struct exchange *exchange)
{
    enum handler handler = exchange->operation->handler;
    find_address(admission, exchange);
    if (!may_try_credentials(admission, exchange)) {
        return;
    }
    note_fault(
        admission, exchange,
        handler == HANDLER_SIGN_IN || handler == HANDLER_SIGN_OUT
            ? caller_identify_newcomer(exchange)
            : caller_identify(exchange, admission->keys, admission->is_plain_cookie_allowed));
    if (!exchange->answer.status) {
        take_from_limit(admission, exchange);
    }
    if (!exchange->answer.status && !exchange->principal.key_digest[0]) {
        check_rights(exchange);
    }
}

bool admission_take_key(const struct admission *admission, struct exchange *exchange,
                        const char *claims)
{
    struct principal known = {0};
    cv_auto(json_decref) json_t *object = claims ? json_loads(claims, 0, NULL) : NULL;
    enum token_fault fault =
        object ? key_source_accept(admission->keys, object, &known) : TOKEN_UNKNOWN_KEY;
    exchange->principal.key_digest[0] = '\0';
    if (fault == TOKEN_UNKNOWN_KEY) {
        exchange_refuse(exchange, 401, "unauthorized", "Sign in", "the API key is not valid");
    } else if (fault != TOKEN_GOOD) {
        exchange_refuse(exchange, 403, "forbidden", "You may not do this",
                        "the key's role is not one that may use this API");
    }
    if (fault != TOKEN_GOOD) {
        note_fault(admission, exchange, token_fault_name(fault));
        return false;
    }
    principal_deinit(&exchange->principal);
    exchange->principal = known;
    check_rights(exchange);
    return !exchange->answer.status;
}

void admission_sign_in(const struct admission *admission, struct exchange *exchange)
{
    note_fault(admission, exchange,
               caller_sign_in(exchange, admission->keys, admission->is_plain_cookie_allowed));
}
