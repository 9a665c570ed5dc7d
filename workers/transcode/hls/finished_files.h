/* Collects complete files of an output in the order in which they may be published. Any thread adds
 * files, one thread reads them. Private to workers/transcode/hls. */
#pragma once

#include "common/media/media.h"

#include "workers/transcode/hls/hls.h"

struct cv_files;

/* `directory` contains the files; copied. */
CV_MUST_CHECK int cv_files_new(const char *directory, struct cv_files **ret_files,
                               struct cv_error *error);
void cv_files_free(struct cv_files *files);
CV_DEFINE_CLEANUP(struct cv_files *, cv_files_free)

const char *cv_files_directory(const struct cv_files *files);

/* Adds a complete file; `name` is copied. */
CV_MUST_CHECK int cv_files_add(struct cv_files *files, enum cv_ladder_part part, const char *name,
                               struct cv_error *error);

/* Writes a file and adds it. */
CV_MUST_CHECK int cv_files_write(struct cv_files *files, enum cv_ladder_part part, const char *name,
                                 const void *data, size_t size, struct cv_error *error);

/* Calls `finished` for every file added since the last call, in order. */
CV_MUST_CHECK int cv_files_drain(struct cv_files *files, cv_ladder_finished finished, void *opaque,
                                 struct cv_error *error);
