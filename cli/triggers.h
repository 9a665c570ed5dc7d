/* What `cortana schedules` and `cortana triggers` share: both are rows of job_triggers. */
#pragma once

#include "cli/command.h"
#include "cli/session.h"

struct cli_trigger_request {
    bool is_schedule;
    const char *arguments[6]; /* behind the action; NULL: not given */
    const char *zone, *tenant, *filter, *key, *window, *catch_up, *priority, *description, *reason;
    const char *video;
    bool one_at_a_time;
};

typedef int cli_trigger_action(struct cli_session *session,
                               const struct cli_trigger_request *request, struct cv_error *error);

struct cli_trigger_verb {
    const char *name;
    int least, most; /* arguments */
    cli_trigger_action *run;
};

/* The whole of such a command: options, then the verb. The first verb is the default. */
CV_MUST_CHECK int cli_triggers_run(const struct cli_command *command,
                                   const struct cli_trigger_verb *verbs, size_t count,
                                   bool is_schedule, int argc, char **argv,
                                   struct cv_cancel *cancel, struct cv_error *error);

cli_trigger_action cli_triggers_list;
cli_trigger_action cli_triggers_show;
cli_trigger_action cli_triggers_add;
cli_trigger_action cli_triggers_pause;
cli_trigger_action cli_triggers_resume;
cli_trigger_action cli_triggers_remove;
cli_trigger_action cli_triggers_emit;
cli_trigger_action cli_schedules_next;
cli_trigger_action cli_schedules_fire;
cli_trigger_action cli_schedules_defaults;
cli_trigger_action cli_schedules_upkeep;
