/* Runs one program. */
#pragma once

#include "common/base/base.h"
#include "common/worker/worker.h"

#include <sys/types.h>

struct program_params {
    const char *program; /* an absolute path; no shell reads it, PATH is not searched */
    char *const *argv;
    char *const *environment;
    const char *directory;
    int64_t time_limit_ms;
    size_t output_max; /* bytes */
    struct cv_cancel *cancel;
};

/* How a program ended; written on success and on failure. */
struct program_end {
    pid_t pid;       /* 0: it was not started */
    bool has_status; /* the program has ended */
    int status;      /* of wait(2) */
};

/* Runs a program until it ends, with empty standard input, standard output collected in `output`,
 * and standard error inherited. The program is killed when this process dies. When canceled or
 * past its time limit, it gets SIGTERM and, three seconds later, SIGKILL. 0 when it ended by
 * itself; CV_ERROR_CANCELED; CV_ERROR_TIMEOUT; CV_ERROR_LIMIT_EXCEEDED (more output than allowed);
 * CV_ERROR_INVALID_PAYLOAD when it cannot be started. `end` is always written. */
CV_MUST_CHECK int program_run(const struct program_params *params, struct cv_buffer *output,
                              struct program_end *end, struct cv_error *error);

/* Files passed between commands. In its directory, a program finds below inputs/ the files that
 * earlier steps have written. Files that it writes below outputs/ are kept in the store when it
 * succeeds (command_files() in sql/platform/1001_commands.sql defines their keys). */

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
