#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <string.h>

/* Schedules and triggers: both are rows of job_triggers; a schedule has a cron expression. A
 * function for both finds out from its verb which is meant. */

#define NEXT_COUNT "5"

/* The last column: why nothing happens, or what happened last. */
#define STATE                                                                      \
    "CASE WHEN paused_at IS NOT NULL THEN concat_ws(': ', 'paused', pause_reason)" \
    " WHEN last_error IS NOT NULL THEN 'failed: ' || last_error ELSE last_outcome END AS state"

static bool is_schedule(const struct cli_call *call)
{
    return strncmp(call->verb->name, "schedules", strlen("schedules")) == 0;
}

static const char *thing(const struct cli_call *call)
{
    return is_schedule(call) ? "schedule" : "trigger";
}

/* ---- looking --------------------------------------------------------------------------------- */

static int warn_if_nobody_fires(struct cli_call *call, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT (SELECT count(*) FROM event_outbox) AS events, EXISTS (SELECT"
                     " FROM workers WHERE 'scheduler' = ANY (job_types) AND state = 'running'"
                     " AND last_seen > clock_timestamp() - interval '5 minutes') AS lives"));
    if (!cv_db_bool(rows, 0, "lives")) {
        char events[CLI_COUNTED_SIZE];
        cli_print_note(
            call, "note: no scheduler runs; %s for one",
            cli_counted(cv_db_int(rows, 0, "events", 0), "event waits", "events wait", events));
    }
    return 0;
}

static int list(struct cli_call *call, const struct cli_column *columns, size_t count,
                struct cv_error *error)
{
    const char *const parameters[] = {is_schedule(call) ? "true" : "false"};
    const struct cli_listing listing = {
        columns, count,
        "SELECT *, to_char(next_at AT TIME ZONE time_zone,"
        " 'YYYY-MM-DD HH24:MI') AS next, action || ' ' || target AS what,"
        " (extract(epoch FROM clock_timestamp() - last_at) * 1000)::bigint"
        " AS ago_ms, " STATE " FROM trigger_overview"
        " WHERE (cron IS NOT NULL) = $1::boolean ORDER BY name",
        1, parameters};
    int result = cli_show(call, &listing, NULL, error);
    return result < 0 ? result : warn_if_nobody_fires(call, error);
}

int cli_schedules_list(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "SCHEDULE"},  {"cron", "CRON"}, {"next", "NEXT"},
        {"time_zone", "ZONE"}, {"what", "DOES"}, {"state", "LAST"},
    };
    return list(call, columns, CV_COUNT(columns), error);
}

int cli_triggers_list(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "TRIGGER"}, {"event", "EVENT"}, {"what", "DOES"},
        {"ago_ms", "AGO"},   {"state", "LAST"},
    };
    return list(call, columns, CV_COUNT(columns), error);
}

int cli_schedules_next(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {{"here", "NEXT"}, {"zone", "ZONE"}, {"utc", "UTC"}};
    return CLI_SHOW(call, columns, NULL, error,
                    "SELECT to_char(i AT TIME ZONE z, 'Dy YYYY-MM-DD HH24:MI') AS here,"
                    " to_char(i AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS utc,"
                    " z AS zone FROM (SELECT coalesce(max(cron), $1) AS cron,"
                    " coalesce(max(time_zone), $2, 'UTC') AS time_zone"
                    " FROM job_triggers WHERE name = $1 AND cron IS NOT NULL) AS t,"
                    " check_time_zone(t.time_zone) AS z,"
                    " next_crons(t.cron, z, " NEXT_COUNT ") AS i",
                    call->arguments[0], cli_value(call, "zone"));
}

int cli_triggers_show(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"at", "FIRED (UTC)"}, {"outcome", "OUTCOME"}, {"instant", "FOR"},
        {"id", "JOB OR RUN"},  {"error", "ERROR"},
    };
    const char *name = call->arguments[0];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT jsonb_pretty(jsonb_strip_nulls(to_jsonb(t))) AS definition"
                     " FROM job_triggers t"
                     " WHERE name = $1 AND (cron IS NOT NULL) = $2::boolean",
                     name, is_schedule(call) ? "true" : "false"));
    if (cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "no %s is called '%s'", thing(call), name);
    }
    if (!call->json) {
        (void)puts(cv_db_text(rows, 0, "definition"));
    }
    int result = CLI_LIST(call, columns, error,
                          "SELECT to_char(f.fired_at AT TIME ZONE 'UTC',"
                          " 'YYYY-MM-DD HH24:MI:SS') AS at, f.outcome, f.error,"
                          " to_char(f.instant AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')"
                          " AS instant, coalesce(f.job_id, f.run_id) AS id"
                          " FROM trigger_firings f JOIN job_triggers t ON t.id = f.trigger_id"
                          " WHERE t.name = $1 ORDER BY f.id DESC LIMIT 20",
                          name);
    return result < 0 ? result : CLI_EXIT_OK;
}

int cli_schedules_upkeep(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "TASK"},    {"every", "EVERY"}, {"ago_ms", "AGO"},
        {"took_ms", "TOOK"}, {"state", "WHAT"},
    };
    return CLI_SHOW(call, columns, NULL, error,
                    "SELECT *, (extract(epoch FROM clock_timestamp() - last_at) * 1000)"
                    "::bigint AS ago_ms, coalesce('failed: ' || last_error, description)"
                    " AS state FROM upkeep_tasks ORDER BY name");
}

/* ---- changing -------------------------------------------------------------------------------- */

/* Splits "all 5" into catch_up and catch_up_limit. */
static void split_catch_up(const char *text, char policy[8], const char **limit)
{
    const char *blank = text ? strchr(text, ' ') : NULL;
    (void)snprintf(policy, 8, "%.*s", blank ? (int)(blank - text) : 7, text ? text : "last");
    *limit = blank ? blank + 1 : "10";
}

int cli_triggers_add(struct cli_call *call, struct cv_error *error)
{
    char **a = call->arguments;
    bool schedule = is_schedule(call);
    char policy[8];
    const char *limit = NULL;
    split_catch_up(cli_value(call, "catch-up"), policy, &limit);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    int result =
        cv_db_run(call->session.db, &rows, error,
                  "INSERT INTO job_triggers (name, cron, event, action, target, payload,"
                  " time_zone, tenant_id, filter, dedupe_key, dedupe_window, catch_up,"
                  " catch_up_limit, priority, description, one_at_a_time)"
                  " VALUES ($1, $2, $3, $4, $5, coalesce($6::jsonb, '{}'),"
                  " coalesce($7, 'UTC'), $8::uuid, $9::jsonb, $10, $11::interval, $12,"
                  " $13::int, priority_number($14), $15, $16::boolean)"
                  " RETURNING to_char(next_at AT TIME ZONE time_zone,"
                  " 'YYYY-MM-DD HH24:MI') || ' ' || time_zone AS next",
                  a[0], schedule ? a[1] : NULL, schedule ? NULL : a[1], a[2], a[3],
                  call->count > 4 ? a[4] : NULL, cli_value(call, "zone"), cli_value(call, "tenant"),
                  cli_value(call, "filter"), cli_value(call, "key"), cli_value(call, "window"),
                  policy, limit, cli_value(call, "priority"), cli_value(call, "description"),
                  cli_given(call, "one-at-a-time") ? "true" : "false");
    if (result == 0 && schedule) {
        const char *next = cv_db_text(rows, 0, "next");
        result = cli_print_outcome(call, json_pack("{s:s, s:s?}", "schedule", a[0], "next", next),
                                   error, "%s: next at %s", a[0], next ? next : "no time");
    } else if (result == 0) {
        result = cli_print_outcome(call, json_pack("{s:s, s:s}", "trigger", a[0], "event", a[1]),
                                   error, "%s waits for %s", a[0], a[1]);
    }
    return result ? result : warn_if_nobody_fires(call, error);
}

int cli_schedules_fire(struct cli_call *call, struct cv_error *error)
{
    const char *name = call->arguments[0];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT outcome, coalesce(job_id, run_id) AS id, error"
                     " FROM fire_now($1)",
                     name));
    const char *outcome = cv_db_text(rows, 0, "outcome");
    const char *id = cv_db_text(rows, 0, "id");
    if (strcmp(outcome, "failed") == 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s", cv_db_text(rows, 0, "error"));
    }
    return cli_print_outcome(
        call, json_pack("{s:s, s:s, s:s?}", "schedule", name, "outcome", outcome, "id", id), error,
        "%s: %s%s%s", name, outcome, id ? " " : "", id ? id : "");
}

int cli_schedules_defaults(struct cli_call *call, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, &rows, error, "SELECT restore_default_schedules() AS made"));
    long long made = (long long)cv_db_int(rows, 0, "made", 0);
    return cli_print_outcome(call, json_pack("{s:I}", "made", (json_int_t)made), error,
                             "%lld schedules were missing", made);
}

int cli_triggers_emit(struct cli_call *call, struct cv_error *error)
{
    char video[CLI_UUID_SIZE];
    const char *name = cli_value(call, "video");
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    if (name) {
        CV_TRY(cli_find(call, "video", name, video, error));
    }
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT emit_event($1, coalesce($2::jsonb, '{}'), $3::uuid,"
                     " p_tenant_id => $4::uuid) AS id",
                     call->arguments[0], call->count > 1 ? call->arguments[1] : NULL,
                     name ? video : NULL, cli_value(call, "tenant")));
    const char *id = cv_db_text(rows, 0, "id");
    CV_TRY(cli_print_outcome(call, json_pack("{s:s}", "event", id), error, "event %s", id));
    return warn_if_nobody_fires(call, error);
}

/* ---- webhooks -------------------------------------------------------------------------------- */

enum { EVENTS_MAX = 16 };

CV_DEFINE_CLEANUP(struct cv_db *, cv_db_rollback)

int cli_webhooks_list(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "WEBHOOK"}, {"url", "URL"}, {"events", "EVENTS"}, {"state", "LAST"}};
    return CLI_SHOW(call, columns, NULL, error,
                    "SELECT *, CASE WHEN disabled_at IS NOT NULL"
                    " THEN concat_ws(': ', 'off', disabled_reason)"
                    " ELSE concat_ws(': ', last_status, last_error) END AS state"
                    " FROM webhook_overview ORDER BY name");
}

/* Prints only the secret on standard output, so that it can be piped; the explanation goes to
 * standard error. */
static int print_secret(struct cli_call *call, const char *name, const char *secret,
                        const char *note, struct cv_error *error)
{
    CV_TRY(cli_print_outcome(call, json_pack("{s:s, s:s}", "webhook", name, "secret", secret),
                             error, "%s", secret));
    cli_print_note(call, "%s", note);
    return 0;
}

/* Adds the webhook and a trigger for each event in one transaction. */
int cli_webhooks_add(struct cli_call *call, struct cv_error *error)
{
    const char *name = call->arguments[0];
    const char *tenant = cli_value(call, "tenant");
    if (cli_value_at(call, "event", EVENTS_MAX)) {
        return cli_usage(call, "more than %d events", EVENTS_MAX);
    }
    CV_TRY(cli_open(call, error));
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto(cv_db_rollback) struct cv_db *db = call->session.db; /* does nothing after a commit */
    CV_TRY(cv_db_begin(db, error));
    CV_TRY(cv_db_run(db, &rows, error, "SELECT add_webhook($1, $2, $3::uuid, $4, $5) AS secret",
                     name, call->arguments[1], tenant, cli_value(call, "description"),
                     cli_value(call, "secret")));
    size_t count = 0;
    for (const char *event; (event = cli_value_at(call, "event", count)); count++) {
        CV_TRY(cv_db_run(db, NULL, error,
                         "INSERT INTO job_triggers (name, event, action, target, tenant_id)"
                         " VALUES (concat('webhook:', $1::text, ':', $2::text), $2, 'webhook',"
                         " $1, $3::uuid)",
                         name, event, tenant));
    }
    CV_TRY(cv_db_commit(db, error));
    char note[320];
    char events[CLI_COUNTED_SIZE];
    (void)snprintf(note, sizeof(note),
                   "%.100s is called for %s; the secret above is for its receiver", name,
                   cli_counted((int64_t)count, "event", "events", events));
    return print_secret(call, name, cv_db_text(rows, 0, "secret"), note, error);
}

int cli_webhooks_rotate(struct cli_call *call, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    const char *keep = cli_value(call, "keep");
    CV_TRY(cli_open(call, error));
    keep = keep ? keep : "24 hours";
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT rotate_webhook($1, $2::interval, $3) AS secret", call->arguments[0],
                     keep, cli_value(call, "secret")));
    char note[256];
    (void)snprintf(note, sizeof(note), "messages are signed with the old secrets, too, for %s",
                   keep);
    return print_secret(call, call->arguments[0], cv_db_text(rows, 0, "secret"), note, error);
}
