#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <string.h>

/* Schedules and triggers: both are triggers of the API; a schedule has a cron expression. */

#define NEXT_COUNT "5"

enum { FIRINGS_SHOWN = 20 };

/* Says that nothing will happen. Who may not see the workers is told nothing. */
static void warn_if_nobody_fires(struct cli_call *call)
{
    size_t i;
    json_t *worker;
    struct cv_error ignored;
    cv_auto(json_decref) json_t *workers = NULL;
    bool lives = cli_ask_items(call, "workers", NULL, 0, &workers, &ignored) != 0;
    json_array_foreach(workers, i, worker)
    {
        const char *types = json_string_value(json_object_get(worker, "job_types"));
        const char *state = json_string_value(json_object_get(worker, "state"));
        lives = lives || (types && state && strcmp(types, "scheduler") == 0 &&
                          strcmp(state, "running") == 0);
    }
    if (!lives) {
        cli_print_note(call, "note: no scheduler runs, so nothing happens until one does");
    }
}

int cli_triggers_request(struct cli_call *call, struct cv_error *error)
{
    CV_TRY(cli_request(call, error));
    warn_if_nobody_fires(call);
    return 0;
}

int cli_triggers_show(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"{fired_at:time}", "FIRED (UTC)"},    {"outcome", "OUTCOME"}, {"{instant:time}", "FOR"},
        {"[{job_id}|{run_id}]", "JOB OR RUN"}, {"error", "ERROR"},
    };
    cv_auto(json_decref) json_t *values = NULL;
    cv_auto(json_decref) json_t *trigger = NULL;
    cv_auto(json_decref) json_t *firings = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_read_values(call, &values, error));
    CV_TRY(call->json ? 0 : cli_ask(call, "trigger", values, &trigger, error));
    CV_TRY(cli_ask_items(call, "firings", values, FIRINGS_SHOWN, &firings, error));
    CV_TRY(call->json ? 0 : cli_put_json(trigger, error));
    return cli_put_items(call, firings, columns, CV_COUNT(columns), error);
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

int cli_schedules_defaults(struct cli_call *call, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, &rows, error, "SELECT restore_default_schedules() AS made"));
    long long made = (long long)cv_db_int(rows, 0, "made", 0);
    return cli_print_outcome(call, json_pack("{s:I}", "made", (json_int_t)made), error,
                             "%lld schedules were missing", made);
}
