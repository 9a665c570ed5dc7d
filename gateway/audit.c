#include "gateway/audit.h"

#include "common/db/db.h"

#include <string.h>

enum {
    ROWS_MAX = 512, /* queued rows; when the queue is full, rows are counted and dropped */
    TEXT_MAX_CHARACTERS = 200,
    PATH_MAX_BYTES = 300,
    CONNECT_MS = 1000,
    STATEMENT_MS = 5 * 1000,
};

static const struct cv_metric lost_total = CV_COUNTER(
    "cortana_api_audit_lost_total",
    "Refusals that are not in the audit log, because a caller had too many or the database "
    "was away.",
    NULL);

struct audit {
    struct audit_params params;
    struct cv_background background; /* its mutex protects everything below */
    char *rows[ROWS_MAX];            /* ring buffer */
    size_t first, count;
};

/* ---- a row --------------------------------------------------------------------------------------- */

static const char *role_name(enum caller_role role)
{
    static const char *const names[] = {"nobody", "viewer",   "editor",
                                        "admin",  "operator", "service"};
    return names[role];
}

/* Truncates a text at a character of UTF-8. */
static json_t *short_text(const char *text)
{
    size_t length = strlen(text);
    if (length > TEXT_MAX_CHARACTERS) {
        length = TEXT_MAX_CHARACTERS;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) {
            length--;
        }
    }
    return json_stringn(text, length);
}

/* The parameters without long values and without secrets, as in logs. */
static json_t *make_parameters(const json_t *values)
{
    const char *name;
    json_t *value;
    struct cv_error error;
    cv_auto_free char *redacted = NULL;
    cv_auto(json_decref) json_t *made = json_object();
    json_object_foreach((json_t *)values, name, value)
    {
        json_t *kept = json_is_string(value) ? short_text(json_string_value(value))
                       : json_is_object(value) || json_is_array(value) ? json_string("…")
                                                                       : json_incref(value);
        if (!kept || json_object_set_new(made, name, kept) != 0) {
            return NULL;
        }
    }
    cv_auto_free char *text = made ? json_dumps(made, JSON_COMPACT) : NULL;
    return text && cv_redacted_text(text, &redacted, &error) == 0 ? json_loads(redacted, 0, NULL)
                                                                  : NULL;
}

/* The object of the request: the id in the path, the id of what was created, or the video named in
 * the parameters. */
static const char *find_target(const json_t *values, const json_t *body)
{
    const char *const found[] = {json_string_value(json_object_get(values, "id")),
                                 json_string_value(json_object_get(body, "id")),
                                 json_string_value(json_object_get(values, "video_id"))};
    for (size_t i = 0; i < CV_COUNT(found); i++) {
        if (found[i] && cv_is_uuid(found[i])) {
            return found[i];
        }
    }
    return NULL;
}

/* The path; that of an operation which asks for no credential but has a parameter there, which then is
 * the secret, without it. */
static void show_path(const struct exchange *exchange, char path[PATH_MAX_BYTES])
{
    const struct operation *operation = exchange->operation;
    bool is_secret =
        operation->least_role == CALLER_NOBODY && operation->path && strchr(operation->path, '{');
    const char *shown = is_secret ? operation->path : exchange->target;
    (void)snprintf(path, PATH_MAX_BYTES, "%.*s", (int)strcspn(shown, "?"), shown);
}

char *audit_row(const struct exchange *exchange)
{
    const struct answer *answer = &exchange->answer;
    const struct principal *principal = &exchange->principal;
    cv_auto(json_decref) json_t *body = answer_json(answer);
    cv_auto(json_decref) json_t *claims =
        json_loads(principal->claims ? principal->claims : "{}", 0, NULL);
    char path[PATH_MAX_BYTES];
    show_path(exchange, path);
    cv_auto(json_decref) json_t *list = json_pack(
        "[{s:s, s:s, s:s, s:s?, s:s, s:s, s:s, s:s?, s:s?, s:o, s:O, s:i}]", "request_id",
        exchange->id, "caller", principal->name[0] ? principal->name : "nobody", "role",
        role_name(principal->role), "address", exchange->address[0] ? exchange->address : NULL,
        "operation", exchange->operation->name, "method", exchange->operation->method, "path", path,
        "target", find_target(exchange->values, body), "reason",
        answer->is_problem ? json_string_value(json_object_get(body, "detail")) : NULL,
        "parameters", make_parameters(exchange->values), "claims", claims, "status",
        (int)answer->status);
    return list ? json_dumps(list, JSON_COMPACT) : NULL;
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static char *wait_for_row(struct audit *audit)
{
    CV_LOCK(&audit->background.mutex);
    while (audit->count == 0 && cv_background_wait(&audit->background, INT64_MAX)) {
    }
    char *row = NULL;
    if (audit->count > 0) {
        row = audit->rows[audit->first];
        audit->first = (audit->first + 1) % ROWS_MAX;
        audit->count--;
    }
    return row;
}

static int write_row(struct cv_db **db, const struct audit *audit, const char *row,
                     struct cv_error *error)
{
    const struct cv_db_params params = {.application_name = "api-gateway audit",
                                        .cancel = audit->params.cancel,
                                        .connect_timeout_ms = CONNECT_MS,
                                        .statement_timeout_ms = STATEMENT_MS};
    CV_TRY(*db ? 0 : cv_db_open(&params, db, error));
    if (!cv_db_is_connected(*db)) {
        CV_TRY(cv_db_reconnect(*db, CONNECT_MS, error));
    }
    return cv_db_run(*db, NULL, error, "SELECT api.record($1::jsonb)", row);
}

static void run_thread(void *opaque)
{
    struct audit *audit = opaque;
    struct cv_db *db = NULL;
    struct cv_error error;
    for (char *row; (row = wait_for_row(audit));) {
        if (write_row(&db, audit, row, &error) != 0) {
            cv_log_error(&error, "a refusal is not in the audit log");
            cv_metric_add(audit->params.metrics, &lost_total, NULL, 1);
        }
        free(row);
    }
    cv_db_close(db);
}

int audit_start(const struct audit_params *params, struct audit **ret_audit, struct cv_error *error)
{
    cv_auto(audit_stop) struct audit *audit = calloc(1, sizeof(*audit));
    CV_TRY_MEMORY(audit, error, "the audit log");
    audit->params = *params;
    CV_TRY(cv_background_start(&audit->background, run_thread, audit, error));
    *ret_audit = cv_take(audit);
    return 0;
}

void audit_stop(struct audit *audit)
{
    if (audit) {
        cv_background_stop(&audit->background, NULL, 0);
        free(audit);
    }
}

void audit_record(struct audit *audit, const struct exchange *exchange)
{
    char network[ADDRESS_TEXT_SIZE];
    limits_network(exchange->address, network);
    bool is_known = exchange->principal.role != CALLER_NOBODY;
    struct rate_state state = limits_charge(audit->params.limits, RATE_NOTE,
                                            is_known ? exchange->principal.name : network);
    char *row = state.is_over ? NULL : audit_row(exchange);
    (void)pthread_mutex_lock(&audit->background.mutex);
    if (row && audit->count < ROWS_MAX) {
        audit->rows[(audit->first + audit->count++) % ROWS_MAX] = cv_take(row);
        cv_background_wake(&audit->background);
    }
    (void)pthread_mutex_unlock(&audit->background.mutex);
    if (row || state.is_over) {
        cv_metric_add(audit->params.metrics, &lost_total, NULL, 1);
    }
    free(row);
}
