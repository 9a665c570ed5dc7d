/* Naming jobs on a command line: what the verbs of `cortana jobs` and others share. */
#pragma once

#include "common/queue/queue.h"

#include "cli/commands/tell.h"

/* A job by its id or the first letters of one; CLI_EXIT_USAGE when there are too few of them. */
CV_MUST_CHECK int cli_find_job(struct cli_call *call, const char *name, char id[CV_UUID_SIZE],
                               struct cv_error *error);

/* 0 when there is such a job type; else CLI_EXIT_USAGE after saying which there are. */
CV_MUST_CHECK int cli_check_job_type(struct cli_call *call, const char *type,
                                     struct cv_error *error);

/* --type, --tenant, --video, --error and --status as members of `filter`, as the queue's functions take them. A value
 * that nothing can have is CLI_EXIT_USAGE. */
CV_MUST_CHECK int cli_read_job_filter(struct cli_call *call, json_t *filter,
                                      struct cv_error *error);

/* --since as text that PostgreSQL reads as a time; "" when it was not given. CLI_EXIT_USAGE when it is none. */
CV_MUST_CHECK int cli_read_since(const struct cli_call *call, char timestamp[CV_TIMESTAMP_SIZE]);
