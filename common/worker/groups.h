/* A cgroup (version 2) for each stage: a bound on its threads, and on its memory by what it touches, and a way to kill
 * all that is in it. Where the worker's own group was delegated to it, by a unit with "Delegate=pids memory" or as
 * a container's writable tree; elsewhere stages go without. Called by the loop's thread. */
#pragma once

#include "common/base/base.h"

struct cv_groups {
    int fd; /* of the worker's group, below which those of stages are made; -1: there are none */
    char why[160]; /* why not */
    unsigned long made;
};

#define CV_GROUPS_INIT      \
    {                       \
        .fd = -1, .why = "" \
    }

/* Moves this process to a group beside those of its stages, for the kernel bounds only groups that hold no process
 * themselves. `root` and `membership` are CV_CGROUP_ROOT and CV_CGROUP_MEMBERSHIP. Never fails: ret_groups->why says
 * what is missing. Call it before there are other processes of this worker. */
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

/* A group for one stage. Without one, `group` is CV_GROUP_INIT. */
void cv_group_make(struct cv_groups *groups, int64_t memory_bytes, struct cv_group *group);
void cv_group_kill(const struct cv_group *group);

/* Kills what is left in it and removes it; again is no harm. */
void cv_group_remove(struct cv_group *group);
