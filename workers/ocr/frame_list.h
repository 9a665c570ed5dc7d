/* Lists of frames that a payload names in the place of the frames, as `sample` stores them. */
#pragma once

#include "common/worker/worker.h"

/* A payload whose "frame_paths" are lists (keys that end in ".json") as one that has "frame_paths" and "frames" of all
 * of them; any other payload as it is. json_decref() it. CV_ERROR_OBJECT_NOT_FOUND: a list is missing;
 * CV_ERROR_INVALID_PAYLOAD: it is no list of frames. */
CV_MUST_CHECK int ocr_frame_list_expand(struct cv_stage_context *context, const json_t *payload,
                                        json_t **ret_payload, struct cv_error *error);
