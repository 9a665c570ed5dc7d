/* Files of subtitles of a video. */
#pragma once

#include "cli/commands/verb.h"

/* Adds the files of subtitles that lie beside a video's file and have its name: talk.srt and talk.en.vtt of talk.mp4. Their
 * jobs read them. The call has a database and a store. */
CV_MUST_CHECK int cli_add_subtitles_beside(struct cli_call *call, const char *video_id,
                                           const char *path, struct cv_error *error);
