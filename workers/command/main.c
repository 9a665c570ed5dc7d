#include "workers/command/command.h"

int main(int argc, char **argv)
{
    static const struct cv_stage stage = {
        .name = "command-worker",
        .job_type = "command",
        .needs = CV_STAGE_NEEDS_DATABASE | CV_STAGE_RUNS_PROGRAMS,
        .run = command_run,
    };
    return cv_worker_main(&stage, argc, argv);
}
