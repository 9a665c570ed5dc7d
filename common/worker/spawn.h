/* Starts this program as a process of another kind: a stage, or the brokers' host. Everything that
 * the child needs is prepared before the fork, because after it a process with threads may only
 * call async-signal-safe functions. */
#pragma once

#include "common/base/base.h"
#include "common/worker/worker.h"

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
    size_t file_count;             /* all higher descriptors are closed, too */
    bool has_group;                /* it joins the cgroup whose directory is group_fd */
    int group_fd;
    bool is_stage; /* it gets its own session and is killed first when memory runs out */
    bool yields;   /* it has a lower CPU priority */
};

/* Adds the variables of this process's environment that a process with these needs may see, except
 * CORTANA_JOB_… (the worker sets its own) and those that were added already. */
CV_MUST_CHECK int cv_spawn_inherit(struct cv_spawn *spawn, unsigned needs, struct cv_error *error);
CV_MUST_CHECK int cv_spawn_variable(struct cv_spawn *spawn, char *entry, struct cv_error *error);

/* Adds a resource limit, at most this process's own. */
void cv_spawn_limit(struct cv_spawn *spawn, int resource, int64_t soft, int64_t hard);

/* Starts the process; it is killed when this one dies. */
CV_MUST_CHECK int cv_spawn(const struct cv_spawn *spawn, pid_t *ret_pid, struct cv_error *error);

/* Decides which environment variables a process that the worker starts may see. */

/* In addition to enum cv_stage_needs: the process accesses the store itself, as a broker does, or sends sound to the endpoint
 * of TRANSCRIBE_URL, as the brokers of a stage do that may have sound transcribed. */
enum { CV_NEEDS_STORE_ACCESS = 1 << 16, CV_NEEDS_SPEECH_ENDPOINT = 1 << 17 };

/* Whether a process with these needs may see "NAME=value". */
bool cv_variables_admits(const char *entry, unsigned needs);

/* Removes all other variables from this process' environment and overwrites their values, so that they
 * are not found in its memory either. */
void cv_variables_wipe(unsigned needs);
