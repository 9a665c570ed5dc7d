#include "cli/triggers.h"

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct cli_trigger_verb verbs[] = {
        {"list", 0, 0, cli_triggers_list},          {"show", 1, 1, cli_triggers_show},
        {"next", 1, 1, cli_schedules_next},         {"add", 4, 5, cli_triggers_add},
        {"pause", 1, 1, cli_triggers_pause},        {"resume", 1, 1, cli_triggers_resume},
        {"remove", 1, 1, cli_triggers_remove},      {"fire", 1, 1, cli_schedules_fire},
        {"defaults", 0, 0, cli_schedules_defaults}, {"upkeep", 0, 0, cli_schedules_upkeep},
    };
    return cli_triggers_run(command, verbs, CV_COUNT(verbs), true, argc, argv, cancel, error);
}

const struct cli_command cli_command_schedules = {
    .name = "schedules",
    .summary = "what is done at certain times",
    .help =
        "usage: cortana schedules [list | show NAME | next NAME|CRON | add NAME CRON ACTION "
        "TARGET\n"
        "       [PAYLOAD] | pause NAME | resume NAME | remove NAME | fire NAME | defaults | "
        "upkeep]\n\n"
        "  list          all of them, with their next instant in their own zone\n"
        "  show NAME     its definition, and what it did last\n"
        "  next NAME     its next five instants; next '30 2 * * mon-fri' those of an expression\n"
        "  add NAME CRON job TYPE | run WORKFLOW | command KEY | webhook NAME [PAYLOAD]\n"
        "                PAYLOAD is JSON; {{schedule.instant}}, {{schedule.local}}, "
        "{{schedule.date}}\n"
        "    --zone ZONE         Europe/Berlin, … (UTC)\n"
        "    --catch-up POLICY   of what was missed: none, last, 'all N' (last)\n"
        "    --one-at-a-time     nothing while the job before waits or runs\n"
        "    --tenant ID, --priority N, --description TEXT\n"
        "  pause NAME    nothing until it is resumed, and nothing is made up for (--reason TEXT)\n"
        "  resume NAME, remove NAME\n"
        "  fire NAME     now, besides its instants\n"
        "  defaults      brings back those of the schedules that come with it which are missing\n"
        "  upkeep        what schedulers do from time to time besides\n"
        "  --data DIR    the installation in DIR, even if DATABASE_URL is set\n\n"
        "The program `scheduler` fires them; any number of it may run.\n",
    .run = run,
};
