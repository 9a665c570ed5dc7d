/* A reel: parts of videos, one behind the other, in one film. */
#pragma once

#include "common/worker/worker.h"

#include "workers/clip_generate/request.h"

/* Makes the film of `request->parts`, stores it, and returns the result of the job. Before each part a card
 * says where it is from. A part of a video that cannot be read is left out, and the result says why; if
 * none is left, that is the error. */
CV_MUST_CHECK int reel_make(struct cv_stage_context *context, const struct clip_request *request,
                            json_t **ret_result, struct cv_error *error);
