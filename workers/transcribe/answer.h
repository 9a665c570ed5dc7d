/* What the endpoint answers: a stranger's text. */
#pragma once

#include "common/media/media.h"

/* Reads the segments of an answer, about sound of `length_ms` that begins at `from_ms` of the video, and adds them to the
 * list as lines. Times are cut to the sound; segments outside of it are left out.
 * CV_ERROR_SERVER if the body is not JSON as OpenAI's verbose_json has it, or if half of its segments are outside
 * of the sound; CV_ERROR_CONFIGURATION if it has a text without times. */
CV_MUST_CHECK int answer_read(const char *body, size_t length, int64_t from_ms, int64_t length_ms,
                              struct cv_subtitle_list *list, struct cv_error *error);
