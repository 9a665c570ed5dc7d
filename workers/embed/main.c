#include "common/embed/embed.h"

#include "workers/embed/embed.h"

/* The rows are written as they come, and outlive the attempt: see embed.h. */
static int nothing_more(struct cv_db *db, const struct cv_job *job, const json_t *result,
                        struct cv_error *error)
{
    (void)db;
    (void)job;
    (void)result;
    (void)error;
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
        .needs = CV_STAGE_NEEDS_DATABASE | CV_STAGE_NEEDS_EMBEDDER,
        .run = embed_run,
        .commit = nothing_more,
    };
    return cv_worker_main(&stage, argc, argv);
}
