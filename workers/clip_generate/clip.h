/* The clip_generate stage: makes a clip of an original that every browser can play. */
#pragma once

#include "common/worker/worker.h"

/* cv_stage.run. Nothing is committed: a clip is only an object in the store, and its path is in the job's
 * result. */
CV_MUST_CHECK int clip_run(struct cv_stage_context *context, const json_t *payload,
                           json_t **ret_result, struct cv_error *error);
