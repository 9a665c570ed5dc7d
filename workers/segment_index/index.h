/* The segment_index stage: makes segments with entities from a video's detections, and updates the
 * search index. */
#pragma once

#include "common/worker/worker.h"

/* Reads the payload's video from the database, or its "detections", which are those of the ocr stage, and then tells what it
 * does with each, and why ("reasons" and "merged"); *ret_result is {"segments": […], "summary": {…}}.
 * A segment is {text, normalized_text, language, confidence, t_start, t_end, bounding_box, end_box,
 * track, words, crop_pack, crop_offset, crop_bytes, entities: [{type, value, normalized_value}], paragraph,
 * paragraph_line}; the last two as replace_video_text() has them. */
CV_MUST_CHECK int index_run(struct cv_stage_context *context, const json_t *payload,
                            json_t **ret_result, struct cv_error *error);

/* Replaces the video's segments and entities, updates the search index, and makes the video ready.
 */
CV_MUST_CHECK int index_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                               struct cv_error *error);
