#include "platform/webhook/webhook.h"

int main(int argc, char **argv)
{
    static const struct cv_stage stage = {
        .name = "webhook-worker",
        .job_type = "webhook",
        .needs = CV_STAGE_NEEDS_DATABASE | CV_STAGE_NEEDS_NETWORK,
        .limits = {.memory_bytes = 512LL << 20, .file_bytes = 1 << 20},
        .port = webhook_port,
        .run = webhook_run,
    };
    return cv_worker_main(&stage, argc, argv);
}
