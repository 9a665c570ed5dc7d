/* The CPU and memory limits that a container (or a systemd service) sets for this process. */
#pragma once

#include "common/base/base.h"

struct cv_cgroup {
    double cpus;          /* CPUs; 0: no limit */
    int64_t memory_bytes; /* 0: no limit */
};

#define CV_CGROUP_ROOT "/sys/fs/cgroup"
#define CV_CGROUP_MEMBERSHIP "/proc/self/cgroup"

/* Reads both limits, of cgroup version 1 or 2. A limit that cannot be read counts as none. */
void cv_cgroup_read(const char *root, const char *membership, struct cv_cgroup *ret_group);

/* The number of CPUs that affinity and cgroup allow this process, rounded up; at least 1. */
int cv_cgroup_cpus(void);

/* The memory limit of a stage: `wanted`, or less if `slots` stages share a group with a smaller
 * limit: then the stage's share of what remains after the supervisor and, with `has_broker`, the
 * stage's broker. If a container exceeds its limit, the kernel kills all of it; a stage that
 * reaches its own limit fails alone and reports why. */
int64_t cv_cgroup_stage_memory(const struct cv_cgroup *group, int64_t wanted, int slots,
                               bool has_broker);

/* Makes a cgroup (version 2) for each stage. It limits the stage's threads and memory, and allows
 * killing everything in it. Available only if the worker's own group was delegated to it, by a unit
 * with "Delegate=pids memory" or as a container's writable tree; otherwise stages run without one.
 * Called by the loop's thread. */

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
