/* Files between commands. A program finds what the steps before it have written below inputs/ in its directory, and
 * what it writes below outputs/ is kept in the store (command_files() in sql/migrations/0011_commands.sql says where)
 * when it succeeds. */
#pragma once

#include "common/worker/worker.h"

struct command_files {
    char *folder; /* what keys of this job's files begin with; NULL (--once): none is kept */
};

void command_files_deinit(struct command_files *files);
CV_DEFINE_CLEANUP_ADDRESS(struct command_files, command_files_deinit)

/* Makes the folder outputs/ in the scratch directory, and inputs/{step}/ with the files of each step that this job
 * depends on. `job_id` may be NULL. The store is opened only when such a step has files or has run at all. */
CV_MUST_CHECK int command_files_fetch(struct cv_stage_context *context, const char *job_id,
                                      struct command_files *ret_files, struct cv_error *error);

/* Puts every file below outputs/ into the store, 1,000 at most, and notes it as an output of the job. What is neither a
 * file nor a folder is CV_ERROR_INVALID_PAYLOAD: a link could lead out of the folder. */
CV_MUST_CHECK int command_files_keep(struct cv_stage_context *context,
                                     const struct command_files *files, struct cv_error *error);
