/* The state of a running stage; its functions are declared in worker.h. */
#pragma once

#include "common/worker/worker.h"

struct cv_stage_context {
    const struct cv_stage *stage;
    struct cv_store *store;
    struct cv_uploads *uploads; /* NULL: none yet */
    struct cv_db *db;
    struct cv_cancel *cancel;
    const char *scratch;
    int threads;
    json_t *program; /* {pid, exit_code, output} of a program that the stage has run; NULL: none */
    json_t *artifacts; /* list of {kind, key, size, content_type, checksum} */
    int progress_fd;
    int64_t progress_at; /* monotonic; when the last report was written */
    char progress_doing[64];
};

/* Sorts the artifacts: threads finish their uploads in any order, and the result must not depend on
 * that. */
CV_MUST_CHECK int cv_stage_sort_artifacts(struct cv_stage_context *context, struct cv_error *error);

/* Closes and frees all members except the borrowed texts. */
void cv_stage_context_deinit(struct cv_stage_context *context);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_stage_context, cv_stage_context_deinit)
