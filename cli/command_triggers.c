#include "cli/triggers.h"

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct cli_trigger_verb verbs[] = {
        {"list", 0, 0, cli_triggers_list},     {"show", 1, 1, cli_triggers_show},
        {"add", 4, 5, cli_triggers_add},       {"pause", 1, 1, cli_triggers_pause},
        {"resume", 1, 1, cli_triggers_resume}, {"remove", 1, 1, cli_triggers_remove},
        {"emit", 1, 2, cli_triggers_emit},
    };
    return cli_triggers_run(command, verbs, CV_COUNT(verbs), false, argc, argv, cancel, error);
}

const struct cli_command cli_command_triggers = {
    .name = "triggers",
    .summary = "what is done when something happens",
    .help =
        "usage: cortana triggers [list | show NAME | add NAME EVENT ACTION TARGET [PAYLOAD] |\n"
        "       pause NAME | resume NAME | remove NAME | emit EVENT [DATA]]\n\n"
        "  list          all of them, and what they did last\n"
        "  show NAME     its definition, and its last 20 times\n"
        "  add NAME EVENT job TYPE | run WORKFLOW | command KEY | webhook NAME [PAYLOAD]\n"
        "                EVENT: video.uploaded, video.ready, clip.created, job.failed, or your "
        "own;\n"
        "                PAYLOAD is JSON; {{event.video_id}}, {{event.data.NAME}} become values\n"
        "    --filter JSON       only events whose data contains this\n"
        "    --window TIME       once in that time ('10 minutes')\n"
        "    --key TEMPLATE      … for each value of this\n"
        "    --one-at-a-time     nothing while the job before waits or runs\n"
        "    --tenant ID         only this tenant's events\n"
        "    --priority N, --description TEXT\n"
        "  pause NAME    nothing until it is resumed (--reason TEXT)\n"
        "  resume NAME, remove NAME\n"
        "  emit EVENT [DATA]   says that something of your own happened (--video V, --tenant ID)\n"
        "  --data DIR    the installation in DIR, even if DATABASE_URL is set\n\n"
        "The program `scheduler` does what they say; any number of it may run.\n",
    .run = run,
};
