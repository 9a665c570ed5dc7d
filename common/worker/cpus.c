#include "common/worker/cgroup.h"
#include "common/worker/stage.h"

#include <math.h>
#include <sched.h>

enum {
    /* A supervisor holds 20 MiB and some results; a stage's pages of files it reads are dropped
     * before anything else. */
    SUPERVISOR_MIB = 64,
    /* A broker holds uploads (CV_UPLOADS_BYTES_MAX) and what it reads ahead of an object, 16 MiB. */
    BROKER_MIB = 48,
    LEAST_MIB = 32, /* with less a stage does not even start; the container's bound then speaks */
};

int cv_worker_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    struct cv_cgroup group;
    cv_cgroup_read(CV_CGROUP_ROOT, CV_CGROUP_MEMBERSHIP, &group);
    if (group.cpus > 0 && group.cpus < allowed) {
        allowed = (int)ceil(group.cpus);
    }
    return allowed > 0 ? allowed : 1;
}

int64_t cv_cgroup_stage_memory(const struct cv_cgroup *group, int64_t wanted, int slots,
                               bool has_broker)
{
    if (group->memory_bytes == 0) {
        return wanted;
    }
    int64_t share = (group->memory_bytes - ((int64_t)SUPERVISOR_MIB << 20)) / slots;
    share -= has_broker ? (int64_t)BROKER_MIB << 20 : 0;
    int64_t least = (int64_t)LEAST_MIB << 20;
    share = share > least ? share : least;
    return share < wanted ? share : wanted;
}
