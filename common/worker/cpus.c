#include "common/worker/stage_internal.h"

#include <sched.h>
#include <string.h>

/* First line of a small kernel file; false when it is not there. */
static bool read_line(const char *path, char *text, size_t size)
{
    cv_auto_file FILE *file = fopen(path, "re");
    return file && fgets(text, (int)size, file);
}

/* CPUs' worth of time that the cgroup grants, rounded up; 0 when it sets no bound. Version 2 says
 * "QUOTA PERIOD" or "max PERIOD" in one file, version 1 uses two files and -1. Inside a container
 * the own group is mounted at the root, so no walk up the tree is needed there. */
static int cgroup_cpus(void)
{
    char line[128];
    long long quota = -1;
    long long period = 0;
    if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof(line))) {
        if (sscanf(line, "%lld %lld", &quota, &period) != 2) {
            return 0;
        }
    } else if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof(line)) ||
               sscanf(line, "%lld", &quota) != 1 ||
               !read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof(line)) ||
               sscanf(line, "%lld", &period) != 1) {
        return 0;
    }
    if (quota <= 0 || period <= 0 || quota / period >= CPU_SETSIZE) {
        return 0;
    }
    return (int)((quota + period - 1) / period);
}

int cv_worker_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    int granted = cgroup_cpus();
    if (granted > 0 && granted < allowed) {
        allowed = granted;
    }
    return allowed > 0 ? allowed : 1;
}
