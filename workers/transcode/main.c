#include "workers/transcode/transcode.h"

/* Sixteen 4K pictures of ten bits, in flight in a decoder and an encoder, are below 1 GiB; the rest
 * is for the largest pictures that are let in. */
#define MEMORY_BYTES (INT64_C(6) << 30)

int main(int argc, char **argv)
{
    static const struct cv_stage stage = {
        .name = "transcode-worker",
        .job_type = "transcode",
        .needs = CV_STAGE_NEEDS_STORE,
        .limits = {.memory_bytes = MEMORY_BYTES},
        .run = transcode_run,
        .commit = transcode_commit,
    };
    return cv_worker_main(&stage, argc, argv);
}
