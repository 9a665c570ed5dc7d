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
