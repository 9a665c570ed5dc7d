/* Starting this very program anew as a process of another kind: a stage, or the brokers' host. All that
 * the child needs is made before the fork; after it, with threads around, only async-signal-safe calls
 * are allowed. */
#pragma once

#include "common/base/base.h"

#include <sys/resource.h>

enum {
    CV_SPAWN_ARGUMENTS_MAX = 16,
    CV_SPAWN_VARIABLES_MAX = 512,
    CV_SPAWN_LIMITS_MAX = 8,
    CV_SPAWN_FILES_MAX = 8,
};

struct cv_spawn {
    char *arguments[CV_SPAWN_ARGUMENTS_MAX]; /* NULL-terminated; borrowed, as are the variables */
    char *environment[CV_SPAWN_VARIABLES_MAX];
    size_t variable_count;
    struct {
        int resource;
        struct rlimit limit;
    } limits[CV_SPAWN_LIMITS_MAX];
    size_t limit_count;
    int files[CV_SPAWN_FILES_MAX]; /* file i becomes descriptor i; -1: closed */
    size_t file_count;             /* everything from here on is closed, too */
    bool has_group;                /* it goes into the cgroup whose directory is group_fd */
    int group_fd;
    bool is_stage; /* a session of its own; the first to go when memory runs out */
    bool yields;   /* others get the CPU first */
};

/* Adds the variables of this process' environment that a process with these needs may see, but for those
 * of the worker's own, CORTANA_JOB_…, and those that it has been given. */
CV_MUST_CHECK int cv_spawn_inherit(struct cv_spawn *spawn, unsigned needs, struct cv_error *error);
CV_MUST_CHECK int cv_spawn_variable(struct cv_spawn *spawn, char *entry, struct cv_error *error);

/* Never above what this process may itself have. */
void cv_spawn_limit(struct cv_spawn *spawn, int resource, int64_t soft, int64_t hard);

/* Starts the process; it dies with this one. */
CV_MUST_CHECK int cv_spawn(const struct cv_spawn *spawn, pid_t *ret_pid, struct cv_error *error);
