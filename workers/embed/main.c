#include "common/embed/embed.h"

#include "workers/embed/embed.h"

static int embed_port(struct cv_stage_context *context, const json_t *payload, uint16_t *ret_port,
                      struct cv_error *error)
{
    (void)context, (void)payload, (void)error;
    *ret_port = cv_embedder_port();
    return 0;
}

/* Without an endpoint jobs wait; they do not fail. */
static int check_endpoint(struct cv_error *error)
{
    cv_auto(cv_embedder_close) struct cv_embedder *embedder = NULL;
    return cv_embedder_open(&embedder, error);
}

int main(int argc, char **argv)
{
    static const struct cv_stage stage = {
        .name = "embed-worker",
        .job_type = "embed",
        .needs = CV_STAGE_NEEDS_DATABASE | CV_STAGE_NEEDS_EMBEDDER | CV_STAGE_NEEDS_NETWORK,
        .check = check_endpoint,
        .port = embed_port,
        .run = embed_run,
    };
    return cv_worker_main(&stage, argc, argv);
}
