/* Reads a container's limits. Version 2 of cgroups has one tree with all controllers, version 1 one
 * tree for each controller, and some machines use both. The process's group is named in
 * /proc/self/cgroup; if that path is not mounted (a container that sees its group as the root), the
 * root is used. Limits of parent groups apply, too. */
#include "common/worker/cgroup.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <string.h>

enum {
    /* A supervisor uses 20 MiB and some results. Cached pages of the files that a stage reads do
     * not matter: the kernel drops them first. */
    SUPERVISOR_MIB = 64,
    /* A broker buffers uploads (CV_UPLOADS_BYTES_MAX) and reads 16 MiB of an object ahead. */
    BROKER_MIB = 48,
    LEAST_MIB = 32, /* a stage does not start with less; the container's limit decides then */
};

/* Version 1 reports "no limit" as a number near 2^63. */
static const int64_t memory_unlimited = 1LL << 60;

/* Reads the first line of a small kernel file; false if the file does not exist. */
static bool read_line(const char *directory, const char *name, char *text, size_t size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path)) {
        return false;
    }
    cv_auto_file FILE *file = fopen(path, "re");
    return file && fgets(text, (int)size, file);
}

static void take_cpus(struct cv_cgroup *group, long long quota, long long period)
{
    if (quota > 0 && period > 0) {
        double cpus = (double)quota / (double)period;
        if (group->cpus <= 0 || cpus < group->cpus) {
            group->cpus = cpus;
        }
    }
}

static void take_memory(struct cv_cgroup *group, const char *text)
{
    long long bytes = 0;
    if (sscanf(text, "%lld", &bytes) == 1 && bytes > 0 && bytes < memory_unlimited &&
        (group->memory_bytes == 0 || bytes < group->memory_bytes)) {
        group->memory_bytes = bytes;
    }
}

/* Reads the limits in one directory, of either version. */
static void read_directory(const char *directory, struct cv_cgroup *group)
{
    char line[128];
    long long quota = 0, period = 0;
    if (read_line(directory, "cpu.max", line, sizeof(line)) &&
        sscanf(line, "%lld %lld", &quota, &period) == 2) { /* else "max" */
        take_cpus(group, quota, period);
    }
    if (read_line(directory, "cpu.cfs_quota_us", line, sizeof(line)) &&
        sscanf(line, "%lld", &quota) == 1 &&
        read_line(directory, "cpu.cfs_period_us", line, sizeof(line)) &&
        sscanf(line, "%lld", &period) == 1) {
        take_cpus(group, quota, period);
    }
    if (read_line(directory, "memory.max", line, sizeof(line)) ||
        read_line(directory, "memory.limit_in_bytes", line, sizeof(line))) {
        take_memory(group, line);
    }
}

/* Reads the group's directory and all its parents, up to the mount point. */
static void read_tree(const char *mount, const char *path, struct cv_cgroup *group)
{
    char directory[PATH_MAX];
    size_t shortest = strlen(mount);
    if (snprintf(directory, sizeof(directory), "%s%s", mount, strcmp(path, "/") == 0 ? "" : path) >=
        (int)sizeof(directory)) {
        return;
    }
    for (;;) {
        read_directory(directory, group);
        char *slash = strrchr(directory, '/');
        if (!slash || (size_t)(slash - directory) < shortest) {
            return;
        }
        *slash = '\0';
    }
}

/* Reads a line of /proc/self/cgroup: "4:memory:/a/b" is of version 1; "0::/a/b" is of version 2. */
static void read_membership(const char *root, char *line, struct cv_cgroup *group)
{
    char mount[PATH_MAX];
    line[strcspn(line, "\n")] = '\0';
    char *names = strchr(line, ':');
    char *path = names ? strchr(names + 1, ':') : NULL;
    if (!path || path[1] != '/' || strstr(path, "/..")) {
        return;
    }
    *path++ = '\0';
    names++;
    if (!names[0]) {
        read_tree(root, path, group);
        (void)snprintf(mount, sizeof(mount), "%s/unified", root);
        read_tree(mount, path, group);
        return;
    }
    bool is_ours = false;
    cv_auto_free char *list = strdup(names);
    char *rest = NULL;
    for (char *name = list ? strtok_r(list, ",", &rest) : NULL; name;
         name = strtok_r(NULL, ",", &rest)) {
        is_ours = is_ours || strcmp(name, "cpu") == 0 || strcmp(name, "memory") == 0;
    }
    if (is_ours && snprintf(mount, sizeof(mount), "%s/%s", root, names) < (int)sizeof(mount)) {
        read_tree(mount, path, group);
    }
}

void cv_cgroup_read(const char *root, const char *membership, struct cv_cgroup *ret_group)
{
    struct cv_cgroup group = {0};
    char line[PATH_MAX];
    cv_auto_file FILE *file = fopen(membership, "re");
    while (file && fgets(line, sizeof(line), file)) {
        read_membership(root, line, &group);
    }
    *ret_group = group;
}

int cv_cgroup_cpus(void)
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
