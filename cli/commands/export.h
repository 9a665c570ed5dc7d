/* Writes a video's text to a file. */
#pragma once

#include "common/export/export.h"

#include "cli/commands/tell.h"

/* Writes the video's text to `path`, completely or not at all ("-": standard output). */
CV_MUST_CHECK int cli_export_file(struct cv_db *db, const char *video_id,
                                  const struct cv_export_params *params, const char *path,
                                  struct cv_error *error);
