/* A video's text as a file: JSON, CSV, SubRip, WebVTT. */
#pragma once

#include "common/db/db.h"

enum cli_export_format { CLI_EXPORT_JSON, CLI_EXPORT_CSV, CLI_EXPORT_SRT, CLI_EXPORT_VTT };

CV_MUST_CHECK bool cli_export_format_parse(const char *name, enum cli_export_format *ret_format);

/* Writes the export into `text`. */
CV_MUST_CHECK int cli_export(struct cv_db *db, const char *video_id, enum cli_export_format format,
                             struct cv_buffer *text, struct cv_error *error);

/* Writes it to a file, whole or not at all. */
CV_MUST_CHECK int cli_export_file(struct cv_db *db, const char *video_id,
                                  enum cli_export_format format, const char *path,
                                  struct cv_error *error);
