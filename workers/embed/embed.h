/* The embed stage: {"video_id", "model"?}. Every distinct text of the video that the model has not seen
 * yet becomes a row of text_embeddings, a batch at a time. Such a row depends on nothing but the text
 * and the model, so it is kept when the attempt fails, and shared with all videos. */
#pragma once

#include "common/worker/worker.h"

/* Result: {"model", "embedded"}, how many texts were new. */
CV_MUST_CHECK int embed_run(struct cv_stage_context *context, const json_t *payload,
                            json_t **ret_result, struct cv_error *error);
