/* The embed stage; payload {"video_id", "model"?}. Every distinct text of the video without a
 * vector of the model gets a row of text_embeddings, in batches. Such a row depends only on the
 * text and the model, so it is kept when the attempt fails, and is used by all videos with that
 * text. */
#pragma once

#include "common/worker/worker.h"

/* Result: {"model", "embedded"}; "embedded" is the number of new texts. */
CV_MUST_CHECK int embed_run(struct cv_stage_context *context, const json_t *payload,
                            json_t **ret_result, struct cv_error *error);
