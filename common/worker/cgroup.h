/* The bounds that a container (or a service of systemd) sets for this process. */
#pragma once

#include "common/base/base.h"

struct cv_cgroup {
    double cpus;          /* CPUs' worth of time; 0: no bound */
    int64_t memory_bytes; /* 0: no bound */
};

#define CV_CGROUP_ROOT "/sys/fs/cgroup"
#define CV_CGROUP_MEMBERSHIP "/proc/self/cgroup"

/* Reads both, of version 1 or 2; what cannot be read is not a bound. */
void cv_cgroup_read(const char *root, const char *membership, struct cv_cgroup *ret_group);

/* CPUs that affinity and the group allow this process, rounded up; at least 1. */
int cv_cgroup_cpus(void);

/* What a stage may hold of memory: `wanted`, or, where `slots` stages share a group that has less,
 * its share of what the supervisor and, with `has_broker`, its broker leave. The kernel kills a whole
 * container that goes over its bound; a stage that meets its own fails alone, and says why. */
int64_t cv_cgroup_stage_memory(const struct cv_cgroup *group, int64_t wanted, int slots,
                               bool has_broker);
