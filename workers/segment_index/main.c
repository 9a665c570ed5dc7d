#include "workers/segment_index/index.h"

int main(int argc, char **argv)
{
    static const struct cv_stage stage = {
        .name = "segment-index-worker",
        .job_type = "segment_index",
        .needs = CV_STAGE_NEEDS_DATABASE,
        .run = index_run,
        .commit = index_commit,
    };
    return cv_worker_main(&stage, argc, argv);
}
