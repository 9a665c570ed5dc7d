#include "workers/ocr/stage.h"

/* Frames of 12 million pixels, several language models and the payload of a long video. */
#define MEMORY_BYTES (INT64_C(3) << 30)

int main(int argc, char **argv)
{
    static const struct cv_grant grants[] = {
        {CV_GRANT_READ, CV_KEYS_FRAMES "{video_id}/*"},
        {CV_GRANT_READ | CV_GRANT_WRITE, CV_KEYS_FRAMES "{video_id}/*.readings"},
        {CV_GRANT_READ | CV_GRANT_WRITE, CV_KEYS_LINES "{video_id}/*.pack"},
        {0},
    };
    static const struct cv_stage stage = {
        .name = "ocr-worker",
        .job_type = "ocr",
        .needs = CV_STAGE_NEEDS_STORE,
        .limits = {.memory_bytes = MEMORY_BYTES},
        .grants = grants,
        .run = ocr_run,
        .commit = ocr_commit,
    };
    return cv_worker_main(&stage, argc, argv);
}
