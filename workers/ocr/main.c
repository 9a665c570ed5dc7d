#include "workers/ocr/stage.h"

#include <string.h>

/* Frames of 12 million pixels, several language models and the payload of a long video. */
#define MEMORY_BYTES (INT64_C(3) << 30)

/* Tesseract's threads cost more than they bring, and with several workers they are a catastrophe.
 * The limit holds only when it stands in the environment before the OpenMP library is loaded. */
static void forbid_threads(char **argv)
{
    if (strcmp(cv_env("OMP_THREAD_LIMIT", ""), "1") == 0) {
        return;
    }
    if (setenv("OMP_THREAD_LIMIT", "1", 1) == 0) {
        (void)execv("/proc/self/exe", argv);
    }
}

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
    forbid_threads(argv);
    return cv_worker_main(&stage, argc, argv);
}
