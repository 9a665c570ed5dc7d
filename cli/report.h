/* What was found in a video, for people. */
#pragma once

#include "cli/clips.h"

/* Prints the video's texts with their time ranges and entities. */
CV_MUST_CHECK int cli_report_texts(struct cli_session *session, const char *video_id,
                                   struct cv_error *error);

/* Searches the video for a word of its own, prints the hit, and the path of a clip around it. */
CV_MUST_CHECK int cli_report_example(struct cli_session *session, struct cli_workers *workers,
                                     const char *video_id, struct cv_cancel *cancel,
                                     struct cv_error *error);
