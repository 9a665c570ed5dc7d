#include "workers/command/command.h"

/* What a program has done it has done: there is nothing to write but its result. */
static int nothing_more(struct cv_db *db, const struct cv_job *job, const json_t *result,
                        struct cv_error *error)
{
    (void)db;
    (void)job;
    (void)result;
    (void)error;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct cv_stage stage = {
        .name = "command-worker",
        .job_type = "command",
        .needs = CV_STAGE_NEEDS_DATABASE | CV_STAGE_RUNS_PROGRAMS,
        .run = command_run,
        .commit = nothing_more,
    };
    return cv_worker_main(&stage, argc, argv);
}
