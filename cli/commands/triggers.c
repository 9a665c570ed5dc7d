#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <string.h>

/* Schedules and triggers: both are triggers of the API; a schedule has a cron expression. */

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
