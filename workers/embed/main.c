#include "common/embed/embed.h"

#include "workers/embed/embed.h"

static int embed_port(struct cv_stage_context *context, const json_t *payload, uint16_t *ret_port,
                      struct cv_error *error)
{
    (void)context, (void)payload, (void)error;
    *ret_port = cv_embedder_port();
    return 0;
}

/* Jobs that no endpoint is there for wait; they do not fail. */
static bool has_endpoint(void)
{
    struct cv_error error;
    cv_auto(cv_embedder_close) struct cv_embedder *embedder = NULL;
    if (cv_embedder_open(&embedder, &error) < 0) {
        cv_log_error(&error, "embed-worker");
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    if (!has_endpoint()) {
        return CV_EXIT_STOP;
    }
    static const struct cv_stage stage = {
        .name = "embed-worker",
        .job_type = "embed",
        .needs = CV_STAGE_NEEDS_DATABASE | CV_STAGE_NEEDS_EMBEDDER | CV_STAGE_NEEDS_NETWORK,
        .port = embed_port,
        .run = embed_run,
    };
    return cv_worker_main(&stage, argc, argv);
}
