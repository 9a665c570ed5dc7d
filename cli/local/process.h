/* Child processes: started with all that is said here and nothing else, awaited with a time-out. */
#pragma once

#include "common/base/base.h"

#include <limits.h>
#include <sys/types.h>

struct cli_process_params {
    const char *const *argv;        /* argv[0] is an absolute path */
    const char *const *environment; /* "NAME=value" put over ours; NULL-terminated; NULL: none */
    bool without_pg;                /* our PG* and DATABASE_URL are kept from it */
    uid_t user;                     /* 0: ours */
    gid_t group;
    int output;            /* standard output and error; standard input is /dev/null */
    bool dies_with_parent; /* gets SIGTERM when we are gone */
};

/* Starts it in a session of its own, so that the terminal's Ctrl-C reaches us alone. */
CV_MUST_CHECK int cli_process_start(const struct cli_process_params *params, pid_t *ret_pid,
                                    struct cv_error *error);

/* Whether the process has ended; our children are reaped and *ret_status is their wait status. */
bool cli_process_has_ended(pid_t pid, int *ret_status);

/* Waits up to `timeout_ms` for a process (ours or not) to end; false: it still runs. */
bool cli_process_wait(pid_t pid, int64_t timeout_ms);

/* Runs a program to its end; raises with the last line of what it printed when it fails. */
CV_MUST_CHECK int cli_process_run(const struct cli_process_params *params, struct cv_error *error);

/* Looks for a program of the system where a shell would (PATH; absolute folders only); false: it is not installed. */
bool cli_find_program(const char *name, char ret_path[PATH_MAX]);
