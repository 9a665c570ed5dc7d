/* The subcommands of `cortana jobs`, by file: command_jobs.c reads the command line; jobs_show.c,
 * jobs_change.c, jobs_watch.c, jobs_archive.c and jobs_restore.c do what it says. */
#pragma once

#include "common/queue/queue.h"

#include "cli/session.h"

/* Archives of ended jobs lie under it; other keys are of the timeline. */
#define CLI_JOB_ARCHIVES "archive/jobs/"

struct cli_jobs_request {
    const char *arguments[2]; /* behind the action; NULL: not given */
    const char *failed_type;  /* --failed */
    const char *reason;       /* --reason */
    json_t *filter;           /* --type, --tenant, … as the queue's functions take them */
    int64_t days;             /* --days */
    bool is_of_jobs;          /* --jobs: the jobs themselves, not their timeline */
    int64_t every_ms;         /* --every, in ms */
    int64_t count;            /* --count; 0: until interrupted */
    struct cv_cancel *cancel;
};

/* A job by its id or the beginning of one. */
CV_MUST_CHECK int cli_find_job(struct cli_session *session, const char *name, char id[CV_UUID_SIZE],
                               struct cv_error *error);

typedef int cli_jobs_action(struct cli_session *session, const struct cli_jobs_request *request,
                            struct cv_error *error);

cli_jobs_action cli_jobs_list;
cli_jobs_action cli_jobs_show;
cli_jobs_action cli_jobs_why;
cli_jobs_action cli_jobs_watch;
cli_jobs_action cli_jobs_retry;
cli_jobs_action cli_jobs_cancel;
cli_jobs_action cli_jobs_priority;
cli_jobs_action cli_jobs_pause;
cli_jobs_action cli_jobs_resume;
cli_jobs_action cli_jobs_archive;
cli_jobs_action cli_jobs_restore;
