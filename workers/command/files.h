/* Files passed between commands. In its directory, a program finds below inputs/ the files that
 * earlier steps have written. Files that it writes below outputs/ are kept in the store when it
 * succeeds (command_files() in sql/migrations/0011_commands.sql defines their keys). */
#pragma once

#include "common/worker/worker.h"

struct command_files {
    char *folder; /* prefix of the keys of this job's files; NULL (--once): none are kept */
};

void command_files_deinit(struct command_files *files);
CV_DEFINE_CLEANUP_ADDRESS(struct command_files, command_files_deinit)

/* Creates the folder outputs/ in the scratch directory, and inputs/{step}/ with the files of each
 * step on which this job depends. `job_id` may be NULL. The store is opened only if such a step
 * has run or has files. */
CV_MUST_CHECK int command_files_fetch(struct cv_stage_context *context, const char *job_id,
                                      struct command_files *ret_files, struct cv_error *error);

/* Stores every file below outputs/, at most 1,000, and records it as an output of the job.
 * CV_ERROR_INVALID_PAYLOAD if anything there is neither a regular file nor a folder, because a
 * link could lead out of the folder. */
CV_MUST_CHECK int command_files_keep(struct cv_stage_context *context,
                                     const struct command_files *files, struct cv_error *error);
