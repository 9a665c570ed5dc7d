#include "workers/ocr/reading/reading.h"
#include "workers/ocr/stage.h"

/* Frames of 12 million pixels, several language models and the payload of a long video. */
#define MEMORY_BYTES (INT64_C(3) << 30)

/* The models that every job reads with. */
static int check_models(struct cv_error *error)
{
    cv_auto(ocr_defaults_deinit) struct ocr_defaults defaults = {.count = 0};
    return ocr_defaults_init(&defaults, error);
}

int main(int argc, char **argv)
{
    static const struct cv_grant grants[] = {
        {CV_GRANT_READ, CV_KEYS_FRAMES "{video_id}/*"},
        {CV_GRANT_READ | CV_GRANT_WRITE, CV_KEYS_LINES "{video_id}/*.pack"},
        {0},
    };
    static const struct cv_stage stage = {
        .name = "ocr-worker",
        .job_type = "ocr",
        .needs = CV_STAGE_NEEDS_STORE,
        .limits = {.memory_bytes = MEMORY_BYTES},
        .grants = grants,
        .check = check_models,
        .run = ocr_run,
        .commit = ocr_commit,
    };
    return cv_worker_main(&stage, argc, argv);
}
