#include "common/worker/cgroup.h"

#include "common/worker/sanitizer.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* ---- limits of this process ------------------------------------------------------------------ */

/* Reads a container's limits. Version 2 of cgroups has one tree with all controllers, version 1 one
 * tree for each controller, and some machines use both. The process's group is named in
 * /proc/self/cgroup; if that path is not mounted (a container that sees its group as the root), the
 * root is used. Limits of parent groups apply, too. */

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

static void limit_cpus(struct cv_cgroup *group, long long quota, long long period)
{
    if (quota > 0 && period > 0) {
        double cpus = (double)quota / (double)period;
        if (group->cpus <= 0 || cpus < group->cpus) {
            group->cpus = cpus;
        }
    }
}

static void limit_memory(struct cv_cgroup *group, const char *text)
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
        limit_cpus(group, quota, period);
    }
    if (read_line(directory, "cpu.cfs_quota_us", line, sizeof(line)) &&
        sscanf(line, "%lld", &quota) == 1 &&
        read_line(directory, "cpu.cfs_period_us", line, sizeof(line)) &&
        sscanf(line, "%lld", &period) == 1) {
        limit_cpus(group, quota, period);
    }
    if (read_line(directory, "memory.max", line, sizeof(line)) ||
        read_line(directory, "memory.limit_in_bytes", line, sizeof(line))) {
        limit_memory(group, line);
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

/* ---- a group for each stage ------------------------------------------------------------------ */

enum {
    THREADS_MAX = 1024, /* the same limit as in a user namespace (sandbox.c) */
    /* Added to the memory limit: a cgroup also counts cached pages of files and the kernel's memory
     * for a process. So RLIMIT_DATA, which counts neither, is reached first. */
    BESIDE_MIB = 256,
    LINE = 256,
};

static const char own_group[] = "supervisor";

/* ---- files of the kernel --------------------------------------------------------------------- */

static bool write_file(int folder, const char *name, const char *text)
{
    cv_auto_fd int fd = openat(folder, name, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool read_text(int folder, const char *name, char text[LINE])
{
    cv_auto_fd int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, LINE - 1);
    text[length > 0 ? length : 0] = '\0';
    return length >= 0;
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        if ((at == text || at[-1] == ' ') && (!at[length] || strchr(" \n", at[length]))) {
            return true;
        }
    }
    return false;
}

/* ---- the worker's group ---------------------------------------------------------------------- */

/* The line "0::/a/b" names the group of version 2. */
static bool find_path(const char *membership, char path[PATH_MAX])
{
    cv_auto_file FILE *file = fopen(membership, "re");
    char line[PATH_MAX];
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0 && !strstr(line, "/..")) {
            (void)snprintf(path, PATH_MAX, "%s", line + strlen("0::"));
            return true;
        }
    }
    return false;
}

static int open_folder(const char *root, const char *path)
{
    char whole[PATH_MAX];
    struct statfs status;
    if (snprintf(whole, sizeof(whole), "%s%s", root, path) >= (int)sizeof(whole)) {
        return -1;
    }
    cv_auto_fd int fd = open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && fstatfs(fd, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC
               ? cv_take_fd(&fd)
               : -1;
}

/* Opens this process's group. A container sees its group as the root. */
static int open_own(const char *root, const char *membership)
{
    char path[PATH_MAX];
    if (!find_path(membership, path)) {
        return -1;
    }
    int fd = open_folder(root, path);
    return fd >= 0 ? fd : open_folder(root, "");
}

static const char *hand_on_controllers(int folder)
{
    static const char controllers[] = "+pids +memory";
    char text[LINE];
    if (!read_text(folder, "cgroup.controllers", text) || !has_word(text, "pids") ||
        !has_word(text, "memory")) {
        return "pids and memory are not delegated";
    }
    if (faccessat(folder, "cgroup.procs", W_OK, AT_EACCESS) != 0) {
        return "it is not this worker's to divide";
    }
    if (write_file(folder, "cgroup.subtree_control", controllers)) {
        return NULL; /* the root group, or one that has been split already */
    }
    if ((mkdirat(folder, own_group, 0755) != 0 && errno != EEXIST) ||
        !write_file(folder, "supervisor/cgroup.procs", "0")) {
        return "it is not this worker's to divide";
    }
    if (!write_file(folder, "cgroup.subtree_control", controllers)) {
        (void)write_file(folder, "cgroup.procs", "0");
        (void)unlinkat(folder, own_group, AT_REMOVEDIR);
        return "other processes are in this worker's group";
    }
    return NULL;
}

void cv_groups_open(const char *root, const char *membership, struct cv_groups *ret_groups)
{
    cv_auto_fd int folder = open_own(root, membership);
    const char *why = folder < 0 ? "there is no cgroup of version 2" : hand_on_controllers(folder);
    *ret_groups = (struct cv_groups)CV_GROUPS_INIT;
    if (why) {
        (void)snprintf(ret_groups->why, sizeof(ret_groups->why), "%s", why);
    } else {
        ret_groups->fd = cv_take_fd(&folder);
    }
}

void cv_groups_close(struct cv_groups *groups)
{
    if (groups->fd >= 0) {
        close(cv_take_fd(&groups->fd));
    }
}

/* ---- a stage's ------------------------------------------------------------------------------- */

static bool bound(int fd, int64_t memory_bytes)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%d", THREADS_MAX);
    bool is_bound = write_file(fd, "pids.max", text);
    if (!CV_UNDER_SANITIZER) {
        (void)snprintf(text, sizeof(text), "%lld",
                       (long long)memory_bytes + ((int64_t)BESIDE_MIB << 20));
        is_bound = is_bound && write_file(fd, "memory.max", text);
    }
    return is_bound;
}

void cv_group_make(struct cv_groups *groups, int64_t memory_bytes, struct cv_group *group)
{
    *group = (struct cv_group)CV_GROUP_INIT;
    if (groups->fd < 0) {
        return;
    }
    group->parent_fd = groups->fd;
    (void)snprintf(group->name, sizeof(group->name), "stage-%d-%lu", (int)getpid(), groups->made++);
    if (mkdirat(groups->fd, group->name, 0755) == 0) {
        group->fd = openat(groups->fd, group->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (group->fd < 0 || !bound(group->fd, memory_bytes)) {
        cv_log(CV_LOG_WARN, "no cgroup for a stage: %s", strerror(errno));
        cv_group_remove(group);
    }
}

void cv_group_kill(const struct cv_group *group)
{
    if (group->fd >= 0) {
        (void)write_file(group->fd, "cgroup.kill",
                         "1"); /* Linux 5.14; before, signals kill the stage */
    }
}

void cv_group_remove(struct cv_group *group)
{
    if (group->parent_fd < 0) {
        return;
    }
    cv_group_kill(group);
    if (group->fd >= 0) {
        close(cv_take_fd(&group->fd));
    }
    if (unlinkat(group->parent_fd, group->name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        cv_log(CV_LOG_DEBUG, "cannot remove the cgroup %s: %s", group->name, strerror(errno));
    }
    *group = (struct cv_group)CV_GROUP_INIT;
}
