/* The clip_generate stage: makes a clip of an original that every browser can play. */
#pragma once

#include "common/worker/worker.h"

/* cv_stage.run and cv_stage.commit. */
CV_MUST_CHECK int clip_run(struct cv_stage_context *context, const json_t *payload,
                           json_t **ret_result, struct cv_error *error);
CV_MUST_CHECK int clip_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                              struct cv_error *error);
