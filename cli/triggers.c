#include "cli/triggers.h"

#include "cli/table.h"
#include "cli/text.h"

#include <getopt.h>
#include <string.h>

enum { NEXT_COUNT = 5 };

/* ---- looking --------------------------------------------------------------------------------- */

/* What stands in the last column: why nothing happens, or what happened last. */
#define STATE                                                                      \
    "CASE WHEN paused_at IS NOT NULL THEN concat_ws(': ', 'paused', pause_reason)" \
    " WHEN last_error IS NOT NULL THEN 'failed: ' || last_error ELSE last_outcome END AS state"

static int warn_if_nobody_fires(struct cli_session *session, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT (SELECT count(*) FROM event_outbox) AS events, EXISTS (SELECT"
                           " FROM workers WHERE 'scheduler' = ANY (job_types) AND state = 'running'"
                           " AND last_seen > clock_timestamp() - interval '5 minutes') AS lives");
    if (result == 0 && !cv_db_bool(rows, 0, "lives")) {
        (void)fprintf(stderr, "note: no scheduler runs; %s events wait for one\n",
                      cv_db_text(rows, 0, "events"));
    }
    return result;
}

int cli_triggers_list(struct cli_session *session, const struct cli_trigger_request *request,
                      struct cv_error *error)
{
    static const struct cli_column schedules[] = {
        {"name", "SCHEDULE", 18},  {"cron", "CRON", 14}, {"next", "NEXT", 16},
        {"time_zone", "ZONE", 13}, {"what", "DOES", 14}, {"state", "LAST", 0},
    };
    static const struct cli_column triggers[] = {
        {"name", "TRIGGER", 28}, {"event", "EVENT", 16}, {"what", "DOES", 20},
        {"ago_ms", "AGO", 8},    {"state", "LAST", 0},
    };
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(
        session->db, &rows, error,
        "SELECT *, to_char(next_at AT TIME ZONE time_zone, 'YYYY-MM-DD HH24:MI') AS next,"
        " action || ' ' || target AS what,"
        " (extract(epoch FROM clock_timestamp() - last_at) * 1000)::bigint AS ago_ms, " STATE
        " FROM trigger_overview WHERE (cron IS NOT NULL) = $1::boolean ORDER BY name",
        request->is_schedule ? "true" : "false");
    if (result == 0 && request->is_schedule) {
        cli_print_table(rows, schedules, CV_COUNT(schedules));
    } else if (result == 0) {
        cli_print_table(rows, triggers, CV_COUNT(triggers));
    }
    return result ? result : warn_if_nobody_fires(session, error);
}

static int not_found(const struct cli_trigger_request *request, struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "no %s is called '%s'",
                   request->is_schedule ? "schedule" : "trigger", request->arguments[0]);
}

static int print_instants(struct cli_session *session, const char *cron, const char *zone,
                          struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    char count[16];
    (void)snprintf(count, sizeof(count), "%d", NEXT_COUNT);
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT to_char(i AT TIME ZONE z, 'Dy YYYY-MM-DD HH24:MI') AS here,"
                           " to_char(i AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS utc, z AS zone"
                           " FROM check_time_zone(coalesce($2, 'UTC')) AS z,"
                           " next_crons($1, z, $3::int) AS i",
                           cron, zone, count);
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        (void)printf("%s %s  (%s UTC)\n", cv_db_text(rows, i, "here"), cv_db_text(rows, i, "zone"),
                     cv_db_text(rows, i, "utc"));
    }
    return result;
}

int cli_schedules_next(struct cli_session *session, const struct cli_trigger_request *request,
                       struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT cron, time_zone FROM job_triggers WHERE name = $1"
                           " AND cron IS NOT NULL",
                           request->arguments[0]);
    if (result) {
        return result;
    }
    return cv_db_rows(rows) > 0
               ? print_instants(session, cv_db_text(rows, 0, "cron"),
                                cv_db_text(rows, 0, "time_zone"), error)
               : print_instants(session, request->arguments[0], request->zone, error);
}

int cli_triggers_show(struct cli_session *session, const struct cli_trigger_request *request,
                      struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"at", "FIRED (UTC)", 19}, {"outcome", "OUTCOME", 10}, {"instant", "FOR", 16},
        {"id", "JOB OR RUN", 8},   {"error", "ERROR", 0},
    };
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *firings = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT jsonb_pretty(jsonb_strip_nulls(to_jsonb(t))) AS definition"
                           " FROM job_triggers t"
                           " WHERE name = $1 AND (cron IS NOT NULL) = $2::boolean",
                           request->arguments[0], request->is_schedule ? "true" : "false");
    result = result ? result
                    : cv_db_run(session->db, &firings, error,
                                "SELECT to_char(f.fired_at AT TIME ZONE 'UTC',"
                                " 'YYYY-MM-DD HH24:MI:SS') AS at, f.outcome, f.error,"
                                " to_char(f.instant AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')"
                                " AS instant, coalesce(f.job_id, f.run_id) AS id"
                                " FROM trigger_firings f JOIN job_triggers t ON t.id = f.trigger_id"
                                " WHERE t.name = $1 ORDER BY f.id DESC LIMIT 20",
                                request->arguments[0]);
    if (result == 0 && cv_db_rows(rows) == 0) {
        return not_found(request, error);
    }
    if (result == 0) {
        (void)puts(cv_db_text(rows, 0, "definition"));
        cli_print_table(firings, columns, CV_COUNT(columns));
    }
    return result;
}

int cli_schedules_upkeep(struct cli_session *session, const struct cli_trigger_request *request,
                         struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "TASK", 18},   {"every", "EVERY", 10}, {"ago_ms", "AGO", 8},
        {"took_ms", "TOOK", 8}, {"state", "WHAT", 0},
    };
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    (void)request;
    int result = cv_db_run(
        session->db, &rows, error,
        "SELECT *, (extract(epoch FROM clock_timestamp() - last_at) * 1000)::bigint AS ago_ms,"
        " coalesce('failed: ' || last_error, description) AS state FROM upkeep_tasks ORDER BY "
        "name");
    if (result == 0) {
        cli_print_table(rows, columns, CV_COUNT(columns));
    }
    return result;
}

/* ---- changing -------------------------------------------------------------------------------- */

/* "all 5" is both of catch_up and catch_up_limit. */
static void split_catch_up(const char *text, char policy[8], const char **limit)
{
    const char *blank = text ? strchr(text, ' ') : NULL;
    (void)snprintf(policy, 8, "%.*s", blank ? (int)(blank - text) : 7, text ? text : "last");
    *limit = blank ? blank + 1 : "10";
}

int cli_triggers_add(struct cli_session *session, const struct cli_trigger_request *request,
                     struct cv_error *error)
{
    const char *const *a = request->arguments;
    char policy[8];
    const char *limit = NULL;
    split_catch_up(request->catch_up, policy, &limit);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(
        session->db, &rows, error,
        "INSERT INTO job_triggers (name, cron, event, action, target, payload, time_zone, "
        "tenant_id,"
        " filter, dedupe_key, dedupe_window, catch_up, catch_up_limit, priority, description,"
        " one_at_a_time) VALUES ($1, $2, $3, $4, $5, coalesce($6::jsonb, '{}'), coalesce($7, "
        "'UTC'),"
        " $8::uuid, $9::jsonb, $10, $11::interval, $12, $13::int, $14::int, $15, $16::boolean)"
        " RETURNING to_char(next_at AT TIME ZONE time_zone, 'YYYY-MM-DD HH24:MI') || ' '"
        " || time_zone AS next",
        a[0], request->is_schedule ? a[1] : NULL, request->is_schedule ? NULL : a[1], a[2], a[3],
        a[4], request->zone, request->tenant, request->filter, request->key, request->window,
        policy, limit, request->priority, request->description,
        request->one_at_a_time ? "true" : "false");
    if (result == 0 && request->is_schedule) {
        (void)printf("%s: next at %s\n", a[0], cv_db_text(rows, 0, "next"));
    } else if (result == 0) {
        (void)printf("%s waits for %s\n", a[0], a[1]);
    }
    return result ? result : warn_if_nobody_fires(session, error);
}

/* Runs a statement that returns a row if there was such a trigger. */
static int change(struct cli_session *session, const struct cli_trigger_request *request,
                  const char *sql, const char *reason, const char *done, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    const char *parameters[] = {request->arguments[0], request->is_schedule ? "true" : "false",
                                reason};
    int result = cv_db_query(session->db, sql, CV_COUNT(parameters), parameters, &rows, error);
    if (result == 0 && cv_db_rows(rows) == 0) {
        return not_found(request, error);
    }
    if (result == 0) {
        (void)printf("%s %s\n", request->arguments[0], done);
    }
    return result;
}

int cli_triggers_pause(struct cli_session *session, const struct cli_trigger_request *request,
                       struct cv_error *error)
{
    return change(session, request,
                  "SELECT pause_trigger(name, $3) FROM job_triggers"
                  " WHERE name = $1 AND (cron IS NOT NULL) = $2::boolean",
                  request->reason, "is paused", error);
}

int cli_triggers_resume(struct cli_session *session, const struct cli_trigger_request *request,
                        struct cv_error *error)
{
    return change(session, request,
                  "SELECT resume_trigger(name), $3::text FROM job_triggers"
                  " WHERE name = $1 AND (cron IS NOT NULL) = $2::boolean",
                  NULL, "goes on", error);
}

int cli_triggers_remove(struct cli_session *session, const struct cli_trigger_request *request,
                        struct cv_error *error)
{
    return change(session, request,
                  "DELETE FROM job_triggers WHERE name = $1 AND (cron IS NOT NULL) = $2::boolean"
                  " RETURNING id, $3::text",
                  NULL, "is removed", error);
}

int cli_schedules_fire(struct cli_session *session, const struct cli_trigger_request *request,
                       struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT outcome, coalesce(job_id, run_id) AS id, error"
                           " FROM fire_now($1)",
                           request->arguments[0]);
    if (result) {
        return result;
    }
    if (strcmp(cv_db_text(rows, 0, "outcome"), "failed") == 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s", cv_db_text(rows, 0, "error"));
    }
    const char *id = cv_db_text(rows, 0, "id");
    (void)printf("%s: %s%s%s\n", request->arguments[0], cv_db_text(rows, 0, "outcome"),
                 id ? " " : "", id ? id : "");
    return 0;
}

int cli_schedules_defaults(struct cli_session *session, const struct cli_trigger_request *request,
                           struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    (void)request;
    int result = cv_db_run(session->db, &rows, error, "SELECT restore_default_schedules() AS made");
    if (result == 0) {
        (void)printf("%s schedules were missing\n", cv_db_text(rows, 0, "made"));
    }
    return result;
}

int cli_triggers_emit(struct cli_session *session, const struct cli_trigger_request *request,
                      struct cv_error *error)
{
    char video[CLI_UUID_SIZE];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = request->video ? cli_find_video(session->db, request->video, video, error) : 0;
    result = result ? result
                    : cv_db_run(session->db, &rows, error,
                                "SELECT emit_event($1, coalesce($2::jsonb, '{}'), $3::uuid,"
                                " p_tenant_id => $4::uuid) AS id",
                                request->arguments[0], request->arguments[1],
                                request->video ? video : NULL, request->tenant);
    if (result == 0) {
        (void)printf("event %s\n", cv_db_text(rows, 0, "id"));
    }
    return result ? result : warn_if_nobody_fires(session, error);
}

/* ---- the command line ------------------------------------------------------------------------ */

static const struct option long_options[] = {
    {"data", required_argument, NULL, 'd'},
    {"zone", required_argument, NULL, 'z'},
    {"tenant", required_argument, NULL, 't'},
    {"filter", required_argument, NULL, 'f'},
    {"key", required_argument, NULL, 'k'},
    {"window", required_argument, NULL, 'w'},
    {"catch-up", required_argument, NULL, 'c'},
    {"priority", required_argument, NULL, 'p'},
    {"description", required_argument, NULL, 'D'},
    {"reason", required_argument, NULL, 'r'},
    {"video", required_argument, NULL, 'v'},
    {"one-at-a-time", no_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static const char **place_of(int option, struct cli_trigger_request *request,
                             struct cli_session_params *params)
{
    switch (option) {
    case 'd':
        return &params->data;
    case 'z':
        return &request->zone;
    case 't':
        return &request->tenant;
    case 'f':
        return &request->filter;
    case 'k':
        return &request->key;
    case 'w':
        return &request->window;
    case 'c':
        return &request->catch_up;
    case 'p':
        return &request->priority;
    case 'D':
        return &request->description;
    case 'r':
        return &request->reason;
    case 'v':
        return &request->video;
    default:
        return NULL;
    }
}

int cli_triggers_run(const struct cli_command *command, const struct cli_trigger_verb *verbs,
                     size_t count, bool is_schedule, int argc, char **argv,
                     struct cv_cancel *cancel, struct cv_error *error)
{
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    struct cli_trigger_request request = {.is_schedule = is_schedule};
    for (int option; (option = cli_next_option(command, argc, argv, ":h", long_options)) != -1;) {
        const char **place = place_of(option, &request, &params);
        if (option == 'h' || option == '?') {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        } else if (place) {
            *place = optarg;
        } else {
            request.one_at_a_time = true;
        }
    }
    const struct cli_trigger_verb *verb = optind < argc ? NULL : &verbs[0];
    for (size_t i = 0; i < count && !verb; i++) {
        verb = strcmp(argv[optind], verbs[i].name) == 0 ? &verbs[i] : NULL;
    }
    if (!verb) {
        return cli_usage(command, "%s cannot '%s'", command->name, argv[optind]);
    }
    int given = optind < argc ? argc - optind - 1 : 0;
    if (given < verb->least || given > verb->most) {
        return cli_usage(command, "%s takes %d to %d arguments", verb->name, verb->least,
                         verb->most);
    }
    for (int i = 0; i < given; i++) {
        request.arguments[i] = argv[optind + 1 + i];
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    return result ? result : verb->run(&session, &request, error);
}
