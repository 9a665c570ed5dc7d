#include "common/http/http.h"

#include "platform/webhook/sign.h"
#include "platform/webhook/webhook.h"

#include <string.h>

enum {
    NAME_MAX_BYTES = 100,
    ID_MAX_BYTES = 100,
    TIMEOUT_MS =
        20 *
        1000, /* for the whole exchange; receivers should store the message and process it later */
    TIMEOUT_MIN_MS = 100,
    TIMEOUT_MAX_MS = 100 * 1000, /* within the type's time limit */
    ANSWER_MAX = 64 << 10,       /* bytes; the rest of an answer is not read */
    SHOWN_BYTES = 255,           /* of the answer, in an error's message */
};

static const char allow_setting[] = "CORTANA_WEBHOOK_ALLOW";

/* The members of the payload. Texts are borrowed from it. */
struct message {
    const char *webhook, *id, *type, *timestamp;
    const json_t *data;
};

struct settings {
    struct cv_http_networks allowed;
    int64_t timeout_ms;
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads a member of printable ASCII without spaces, so that it can be put into a header. */
static int read_text(const json_t *payload, const char *key, size_t longest, const char **ret_text,
                     struct cv_error *error)
{
    const char *text = json_string_value(json_object_get(payload, key));
    bool good = text && text[0] && strlen(text) <= longest;
    for (const char *c = text; good && *c; c++) {
        good = *c > ' ' && *c <= '~';
    }
    if (!good) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "\"%s\" must be 1 to %zu plain characters",
                       key, longest);
    }
    *ret_text = text;
    return 0;
}

static int read_message(const json_t *payload, struct message *message, struct cv_error *error)
{
    CV_TRY(read_text(payload, "webhook", NAME_MAX_BYTES, &message->webhook, error));
    CV_TRY(read_text(payload, "id", ID_MAX_BYTES, &message->id, error));
    CV_TRY(read_text(payload, "type", NAME_MAX_BYTES, &message->type, error));
    CV_TRY(read_text(payload, "timestamp", NAME_MAX_BYTES, &message->timestamp, error));
    message->data = json_object_get(payload, "data");
    if (!json_is_object(message->data)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "\"data\" must be an object");
    }
    return 0;
}

static int read_settings(struct settings *settings, struct cv_error *error)
{
    if (!cv_http_networks_parse(cv_env(allow_setting, ""), &settings->allowed)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "%s must be networks like 10.0.0.0/8,fd00::/8", allow_setting);
    }
    return cv_env_int("CORTANA_WEBHOOK_TIMEOUT_MS", TIMEOUT_MS, TIMEOUT_MIN_MS, TIMEOUT_MAX_MS,
                      &settings->timeout_ms, error);
}

/* Writes the body, with the same bytes in every attempt: members in this order, data as the queue
 * stored it. Sixteen digits write 33.767 as it was, not as the nearest double. */
static int make_body(const struct message *message, char **ret_body, struct cv_error *error)
{
    cv_auto(json_decref) json_t *body =
        json_pack("{s:s, s:s, s:O}", "type", message->type, "timestamp", message->timestamp, "data",
                  message->data);
    char *text = body ? json_dumps(body, CV_JSON_KEPT) : NULL;
    CV_TRY_MEMORY(text, error, "the message");
    *ret_body = text;
    return 0;
}

/* ---- what an answer means -------------------------------------------------------------------- */

/* The beginning of an answer's body, in plain ASCII. */
static void show_body(const struct cv_buffer *body, char shown[SHOWN_BYTES + 1])
{
    size_t length = body->length < SHOWN_BYTES ? body->length : SHOWN_BYTES;
    for (size_t i = 0; i < length; i++) {
        char c = body->data[i];
        shown[i] = c >= ' ' && c <= '~' ? c : '.';
    }
    shown[length] = '\0';
}

static int judge(struct cv_db *db, const struct message *message,
                 const struct cv_http_answer *answer, struct cv_error *error)
{
    long status = answer->status;
    char shown[SHOWN_BYTES + 1];
    if (status / 100 == 2) {
        return 0;
    }
    if (status == 410) {
        CV_TRY(cv_db_run(db, NULL, error, "SELECT disable_webhook($1, $2)", message->webhook,
                         "the receiver answered 410 Gone"));
        return cv_fail(error, CV_ERROR_REFUSED, "webhook %s: 410 Gone, it is off from now on",
                       message->webhook);
    }
    enum cv_error_type type = status == 429                    ? CV_ERROR_THROTTLED
                              : status == 408                  ? CV_ERROR_TIMEOUT
                              : status == 425 || status >= 500 ? CV_ERROR_SERVER
                                                               : CV_ERROR_REFUSED;
    show_body(&answer->body, shown);
    int result = cv_fail(error, type, "webhook %s: HTTP %ld%s%s%s", message->webhook, status,
                         status / 100 == 3 ? ", and no redirect is followed" : "",
                         shown[0] ? ": " : "", shown);
    error->retry_after_ms = answer->retry_after_ms;
    return result;
}

/* ---- the stage ------------------------------------------------------------------------------- */

/* One signature for each valid secret, the newest first. */
static int sign_all(const struct cv_db_result *rows, const struct message *message,
                    const char *body, char **ret_signatures, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer signatures = CV_BUFFER_INIT;
    for (int row = 0; row < cv_db_rows(rows); row++) {
        char signature[WEBHOOK_SIGNATURE_SIZE];
        CV_TRY(webhook_sign(cv_db_text(rows, row, "secret"), message->id,
                            cv_db_int(rows, row, "now_s", 0), body, strlen(body), signature,
                            error));
        cv_buffer_printf(&signatures, "%s%s", row > 0 ? " " : "", signature);
    }
    return cv_buffer_detach(&signatures, ret_signatures, error);
}

static int send_message(const struct settings *settings, const struct message *message,
                        const struct cv_db_result *rows, struct cv_cancel *cancel,
                        struct cv_http_answer *ret_answer, struct cv_error *error)
{
    cv_auto_free char *body = NULL, *signatures = NULL;
    cv_auto_free char *id = NULL, *timestamp = NULL, *signed_by = NULL;
    cv_auto(cv_http_client_close) struct cv_http_client *client = NULL;
    CV_TRY(make_body(message, &body, error));
    CV_TRY(sign_all(rows, message, body, &signatures, error));
    CV_TRY(cv_format(&id, error, "webhook-id: %s", message->id));
    CV_TRY(cv_format(&timestamp, error, "webhook-timestamp: %lld",
                     (long long)cv_db_int(rows, 0, "now_s", 0)));
    CV_TRY(cv_format(&signed_by, error, "webhook-signature: %s", signatures));
    CV_TRY(cv_http_client_open(&client, error));
    const char *const headers[] = {
        "content-type: application/json", id, timestamp, signed_by, "Expect:", NULL};
    const struct cv_http_request request = {
        .method = "POST",
        .url = cv_db_text(rows, 0, "url"),
        .headers = headers,
        .body = body,
        .body_length = strlen(body),
        .answer_max = ANSWER_MAX,
        .timeout_ms = settings->timeout_ms,
        .ca_file = cv_env("CORTANA_CA_FILE", NULL),
        .allowed = &settings->allowed,
        .allow_setting = allow_setting,
        .cancel = cancel,
    };
    int result = cv_http_send(client, &request, ret_answer, error);
    return result ? cv_fail_context(error, result, "webhook %s", message->webhook) : 0;
}

int webhook_port(struct cv_stage_context *context, const json_t *payload, uint16_t *ret_port,
                 struct cv_error *error)
{
    const char *name = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (read_text(payload, "webhook", NAME_MAX_BYTES, &name, error) < 0) {
        *ret_port = 0; /* webhook_run reports the error */
        return 0;
    }
    CV_TRY(cv_db_run(cv_stage_db(context), &rows, error,
                     "SELECT url FROM webhook_to_call($1) LIMIT 1", name));
    *ret_port = cv_db_rows(rows) > 0 ? cv_http_port(cv_db_text(rows, 0, "url")) : 0;
    return 0;
}

int webhook_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
                struct cv_error *error)
{
    struct message message = {.webhook = NULL};
    struct settings settings = {.timeout_ms = 0};
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {.status = 0};
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    struct cv_db *db = cv_stage_db(context);
    CV_TRY(read_settings(&settings, error));
    CV_TRY(read_message(payload, &message, error));
    CV_TRY(cv_db_run(db, &rows, error, "SELECT * FROM webhook_to_call($1)", message.webhook));
    if (cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_REFUSED,
                       "webhook %s is gone, or off, or has no valid secret", message.webhook);
    }
    CV_TRY(send_message(&settings, &message, rows, cv_stage_cancel(context), &answer, error));
    CV_TRY(judge(db, &message, &answer, error));
    *ret_result = json_pack("{s:i, s:I}", "status", (int)answer.status, "took_ms",
                            (json_int_t)answer.took_ms);
    return *ret_result ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the result");
}
