/* Writes a video's text, or anything else, to a file. */
#pragma once

#include "common/export/export.h"

#include "cli/commands/operation.h"

/* Has `fill` write a file with `write` (cli_write, opaque: the FILE), completely or not at all: a new file
 * is renamed when it is whole. "-" is standard output. */
typedef int cli_fill(void *opaque, cli_write *write, void *file, struct cv_error *error);
CV_MUST_CHECK int cli_write_file(const char *path, cli_fill *fill, void *opaque,
                                 struct cv_error *error);

/* Writes the video's text to `path`, with the parameters of the operation export but for the format. */
CV_MUST_CHECK int cli_export_file(struct cli_call *call, json_t *values, const char *format,
                                  const char *path, struct cv_error *error);

/* Passes an object's bytes on to `write`, piece by piece. CV_STORE_NOT_FOUND is an outcome. */
CV_MUST_CHECK int cli_read_object(struct cv_store *store, const char *key, cli_write *write,
                                  void *opaque, struct cv_error *error);
