#include "common/worker/worker.h"

#include "workers/webhook/webhook.h"

#include <string.h>

CV_DEFINE_CLEANUP(json_t *, json_decref)

enum {
    NAME_MAX_BYTES = 100,
    ID_MAX_BYTES = 100,
    REAL_DIGITS = 16,
    TIMEOUT_MS = 20 * 1000, /* for the whole exchange: a receiver takes it and works later */
    TIMEOUT_MIN_MS = 100,
    TIMEOUT_MAX_MS = 100 * 1000, /* within the type's time limit */
};

/* What the payload says. Texts are borrowed from it. */
struct message {
    const char *webhook, *id, *type, *timestamp;
    const json_t *data;
};

struct settings {
    struct webhook_allowed allowed;
    int64_t timeout_ms;
};

/* ---- reading --------------------------------------------------------------------------------- */

/* A member of printable ASCII without blanks: it may stand in a header. */
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
    int result = read_text(payload, "webhook", NAME_MAX_BYTES, &message->webhook, error);
    result = result ? result : read_text(payload, "id", ID_MAX_BYTES, &message->id, error);
    result = result ? result : read_text(payload, "type", NAME_MAX_BYTES, &message->type, error);
    result = result ? result
                    : read_text(payload, "timestamp", NAME_MAX_BYTES, &message->timestamp, error);
    message->data = json_object_get(payload, "data");
    if (result == 0 && !json_is_object(message->data)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "\"data\" must be an object");
    }
    return result;
}

static int read_settings(struct settings *settings, struct cv_error *error)
{
    if (!webhook_allowed_parse(cv_env("CORTANA_WEBHOOK_ALLOW", ""), &settings->allowed)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "CORTANA_WEBHOOK_ALLOW must be networks like 10.0.0.0/8,fd00::/8");
    }
    return cv_env_int("CORTANA_WEBHOOK_TIMEOUT_MS", TIMEOUT_MS, TIMEOUT_MIN_MS, TIMEOUT_MAX_MS,
                      &settings->timeout_ms, error);
}

/* The same bytes at every attempt: members in this order, data as the queue has kept it. Sixteen
 * digits write 33.767 as it was, and not as the nearest double. */
static int make_body(const struct message *message, char **ret_body, struct cv_error *error)
{
    cv_auto(json_decref) json_t *body =
        json_pack("{s:s, s:s, s:O}", "type", message->type, "timestamp", message->timestamp, "data",
                  message->data);
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS)) : NULL;
    if (!text) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the message");
    }
    *ret_body = text;
    return 0;
}

/* ---- what an answer means -------------------------------------------------------------------- */

static int judge(struct cv_db *db, const struct message *message,
                 const struct webhook_answer *answer, struct cv_error *error)
{
    long status = answer->status;
    if (status / 100 == 2) {
        return 0;
    }
    if (status == 410) {
        int result = cv_db_run(db, NULL, error, "SELECT disable_webhook($1, $2)", message->webhook,
                               "the receiver answered 410 Gone");
        return result ? result
                      : cv_fail(error, CV_ERROR_REFUSED,
                                "webhook %s: 410 Gone, it is off from now on", message->webhook);
    }
    enum cv_error_type type = status == 429                    ? CV_ERROR_THROTTLED
                              : status == 408                  ? CV_ERROR_TIMEOUT
                              : status == 425 || status >= 500 ? CV_ERROR_SERVER
                                                               : CV_ERROR_REFUSED;
    int result = cv_fail(error, type, "webhook %s: HTTP %ld%s%s%s", message->webhook, status,
                         status / 100 == 3 ? ", and no redirect is followed" : "",
                         answer->text[0] ? ": " : "", answer->text);
    error->retry_after_ms = answer->retry_after_ms;
    return result;
}

/* ---- the stage ------------------------------------------------------------------------------- */

/* One signature a secret, newest first. */
static int sign_all(const struct cv_db_result *rows, struct webhook_delivery *delivery,
                    struct cv_buffer *signatures, struct cv_error *error)
{
    for (int row = 0; row < cv_db_rows(rows); row++) {
        char signature[WEBHOOK_SIGNATURE_SIZE];
        int result =
            webhook_sign(cv_db_text(rows, row, "secret"), delivery->id, delivery->timestamp_s,
                         delivery->body, delivery->length, signature, error);
        if (result != 0) {
            return result;
        }
        cv_buffer_printf(signatures, "%s%s", row > 0 ? " " : "", signature);
    }
    if (signatures->failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the signatures");
    }
    delivery->signatures = signatures->data;
    return 0;
}

static int deliver(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
                   struct cv_error *error)
{
    struct message message = {.webhook = NULL};
    struct settings settings = {.timeout_ms = 0};
    struct webhook_answer answer = {.status = 0};
    cv_auto_free char *body = NULL;
    cv_auto(cv_buffer_deinit) struct cv_buffer signatures = CV_BUFFER_INIT;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    struct cv_db *db = cv_stage_db(context);
    int result = read_settings(&settings, error);
    result = result ? result : read_message(payload, &message, error);
    result = result ? result : make_body(&message, &body, error);
    result =
        result ? result
               : cv_db_run(db, &rows, error, "SELECT * FROM webhook_to_call($1)", message.webhook);
    if (result != 0) {
        return result;
    }
    if (cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_REFUSED,
                       "webhook %s is gone, or off, or has no valid secret", message.webhook);
    }
    struct webhook_delivery delivery = {
        .url = cv_db_text(rows, 0, "url"),
        .id = message.id,
        .timestamp_s = cv_db_int(rows, 0, "now_s", 0),
        .body = body,
        .length = strlen(body),
        .timeout_ms = settings.timeout_ms,
        .ca_file = cv_env("CORTANA_WEBHOOK_CA_FILE", NULL),
        .allowed = &settings.allowed,
        .cancel = cv_stage_cancel(context),
    };
    result = sign_all(rows, &delivery, &signatures, error);
    if (result == 0 && webhook_send(&delivery, &answer, error) != 0) {
        return cv_fail_context(error, -1, "webhook %s", message.webhook);
    }
    result = result ? result : judge(db, &message, &answer, error);
    if (result != 0) {
        return result;
    }
    *ret_result = json_pack("{s:i, s:I}", "status", (int)answer.status, "took_ms",
                            (json_int_t)answer.took_ms);
    return *ret_result ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the result");
}

/* What was to be done is done by the answer; the tables learn it from the job. */
static int settle(struct cv_db *db, const struct cv_job *job, const json_t *result,
                  struct cv_error *error)
{
    (void)db, (void)job, (void)result, (void)error;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct cv_stage stage = {
        .name = "webhook-worker",
        .job_type = "webhook",
        .needs = CV_STAGE_NEEDS_DATABASE,
        .limits = {.memory_bytes = 512LL << 20, .file_bytes = 1 << 20},
        .run = deliver,
        .commit = settle,
    };
    return cv_worker_main(&stage, argc, argv);
}
