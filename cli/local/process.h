/* Child processes: started with exactly the given parameters, awaited with a time-out. */
#pragma once

#include "common/base/base.h"

#include <limits.h>
#include <sys/types.h>

struct cli_process_params {
    const char *const *argv; /* argv[0] is an absolute path */
    const char *const
        *environment;      /* "NAME=value", replacing inherited ones; NULL-terminated; NULL: none */
    bool without_pg;       /* it does not inherit PG* and DATABASE_URL */
    const char *directory; /* where it starts; NULL: where this process is, or as another user / */
    uid_t user;            /* 0: this process's user */
    gid_t group;
    int input;             /* standard input; 0: /dev/null */
    int output;            /* standard output */
    int errors;            /* standard error; 0: as output */
    bool dies_with_parent; /* it gets SIGTERM when this process ends */
};

/* Starts it in the current folder (as another user in /) and in its own session, so that Ctrl-C on the terminal reaches only this process. */
CV_MUST_CHECK int cli_process_start(const struct cli_process_params *params, pid_t *ret_pid,
                                    struct cv_error *error);

/* Whether the process has ended; a child is reaped, and *ret_status is its wait status. */
bool cli_process_has_ended(pid_t pid, int *ret_status);

/* Waits up to `timeout_ms` for any process to end; false: it still runs. */
bool cli_process_wait(pid_t pid, int64_t timeout_ms);

/* Starts it and waits until it ends; *ret_status is its wait status. On `cancel` it is stopped: CV_ERROR_CANCELED. */
CV_MUST_CHECK int cli_process_await(const struct cli_process_params *params,
                                    struct cv_cancel *cancel, int *ret_status,
                                    struct cv_error *error);

/* Finds in a program's output why it failed, and ends that line: what follows the first "error: ",
 * "FATAL: " or the like, else the last line. Messages that begin with `no_reason` (NULL: none) do not
 * count. Points into `text`. */
const char *cli_process_reason(char *text, const char *no_reason);

/* Fails with a message and such a reason: with CV_ERROR_DISK_FULL if that says so, else with
 * CV_ERROR_CONFIGURATION. */
CV_MUST_CHECK int cli_process_fail(const char *reason, struct cv_error *error, const char *format,
                                   ...) CV_PRINTF(3, 4);

/* Runs a program and waits; if it fails, fails with the reason in its output. */
CV_MUST_CHECK int cli_process_run(const struct cli_process_params *params, struct cv_error *error);

/* Searches a program in PATH as a shell does (only absolute folders); false: it is not installed. */
bool cli_find_program(const char *name, char ret_path[PATH_MAX]);
