#include "common/store/store.h"

#include "platform/command/command.h"

int main(int argc, char **argv)
{
    static const struct cv_grant grants[] = {
        {CV_GRANT_READ | CV_GRANT_WRITE | CV_GRANT_DELETE, CV_KEYS_OUTPUTS "*"},
        {0},
    };
    static const struct cv_stage stage = {
        .name = "command-worker",
        .job_type = "command",
        .needs = CV_STAGE_NEEDS_DATABASE | CV_STAGE_RUNS_PROGRAMS,
        .grants = grants,
        .run = command_run,
    };
    return cv_worker_main(&stage, argc, argv);
}
