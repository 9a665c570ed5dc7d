/* Makes a cgroup (version 2) for each stage. It limits the stage's threads and memory, and allows
 * killing everything in it. Available only if the worker's own group was delegated to it, by a unit
 * with "Delegate=pids memory" or as a container's writable tree; otherwise stages run without one.
 * Called by the loop's thread. */
#pragma once

#include "common/base/base.h"

struct cv_groups {
    int fd;        /* the worker's group, parent of the stages' groups; -1: none */
    char why[160]; /* why there is none */
    unsigned long made;
};

#define CV_GROUPS_INIT      \
    {                       \
        .fd = -1, .why = "" \
    }

/* Moves this process to a group beside those of its stages, because the kernel limits only the
 * children of a group that holds no process itself. `root` and `membership` are CV_CGROUP_ROOT and
 * CV_CGROUP_MEMBERSHIP. Never fails: ret_groups->why says what is missing. Call it before this
 * worker starts other processes. */
void cv_groups_open(const char *root, const char *membership, struct cv_groups *ret_groups);
void cv_groups_close(struct cv_groups *groups);

struct cv_group {
    int parent_fd; /* borrowed from the groups */
    int fd;        /* -1: no group; a process that writes "0" to its cgroup.procs is in it */
    char name[48];
};

#define CV_GROUP_INIT             \
    {                             \
        .parent_fd = -1, .fd = -1 \
    }

/* Makes a group for one stage; if that is not possible, `group` is CV_GROUP_INIT. */
void cv_group_make(struct cv_groups *groups, int64_t memory_bytes, struct cv_group *group);
void cv_group_kill(const struct cv_group *group);

/* Kills the processes left in the group and removes it; may be called again. */
void cv_group_remove(struct cv_group *group);
