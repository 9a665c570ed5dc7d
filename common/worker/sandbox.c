/* The layers need no privileges and are independent of each other; docs/design/sandbox.md says what
 * each prevents. Their order matters: a namespace must be made before system calls are restricted,
 * and gives capabilities, which are dropped after it. */
#include "common/worker/sandbox.h"

#include "common/worker/sanitizer.h"
#include "common/worker/system_calls.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum sandbox_use {
    USE_READ,   /* files and directories */
    USE_DEVICE, /* a device, read and written */
    USE_WRITE,  /* the scratch directory */
};

enum { NO_MEMORY = -2 };
typedef int sandbox_visit(void *opaque, const char *path, enum sandbox_use use);

/* ---- what a stage may see of this machine -------------------------------------------------------- */

/* Paths that the libraries of a stage read while it works. */
static const char *const readable[] = {
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache", /* libraries that are loaded late */
    "/etc/fonts",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
    /* Not all of /proc/self: through the number of a descriptor in it, a file that is open for
     * reading could be opened for writing. */
    "/proc/self/maps",
    "/proc/self/status",
#if CV_UNDER_SANITIZER
    "/proc/self",
#endif
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
};
/* … and, in addition, those of a stage that resolves names and checks certificates. */
static const char *const readable_with_network[] = {
    "/etc/resolv.conf", "/etc/hosts",           "/etc/nsswitch.conf",   "/etc/host.conf",
    "/etc/gai.conf",    "/etc/services",        "/etc/protocols",       "/etc/ssl/certs",
    "/etc/pki",         "/etc/ca-certificates", "/run/systemd/resolve",
};
/* Not /dev/zero: its mapped memory is charged to nobody. */
static const char *const usable_devices[] = {"/dev/null", "/dev/random", "/dev/urandom"};

static int visit_all(const char *const *paths, size_t count, enum sandbox_use use,
                     sandbox_visit *visit, void *opaque)
{
    for (size_t i = 0; i < count; i++) {
        CV_TRY(visit(opaque, paths[i], use));
    }
    return 0;
}

/* Visits the directories in a list "A:B:C" from the environment. */
static int visit_listed(const char *variable, sandbox_visit *visit, void *opaque)
{
    cv_auto_free char *list = strdup(cv_env(variable, ""));
    if (!list) {
        return NO_MEMORY;
    }
    char *rest = NULL;
    for (char *path = strtok_r(list, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
        CV_TRY(visit(opaque, path, USE_READ));
    }
    return 0;
}

/* Calls `visit` for every path that such a stage may use, scratch last; a path need not exist, and
 * is valid only during the call. Stops at the first result that is not 0 and returns it; NO_MEMORY:
 * out of memory. */
static int each_path(const struct cv_sandbox *sandbox, sandbox_visit *visit, void *opaque)
{
    CV_TRY(visit_all(readable, CV_COUNT(readable), USE_READ, visit, opaque));
    if (sandbox->families & CV_SANDBOX_INET) {
        CV_TRY(visit_all(readable_with_network, CV_COUNT(readable_with_network), USE_READ, visit,
                         opaque));
    }
    CV_TRY(visit_all(usable_devices, CV_COUNT(usable_devices), USE_DEVICE, visit, opaque));
    CV_TRY(visit_listed("TESSDATA_PREFIX", visit, opaque));
    CV_TRY(visit_listed("CORTANA_READ_PATHS", visit, opaque));
    return visit(opaque, sandbox->scratch, USE_WRITE);
}

/* ---- Landlock ------------------------------------------------------------------------------------ */

/* Rights that the oldest supported kernel headers do not have; the values are the kernel's ABI. */
#define RIGHT_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define RIGHT_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define RIGHT_NET_BIND (1ULL << 0)   /* ABI 4 */
#define RIGHT_NET_CONNECT (1ULL << 1)
#define SCOPE_ABSTRACT_UNIX (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)
enum {
    RULE_NET_PORT = 2,
    ABI_PORTS = 4,
    DNS_PORT = 53, /* a resolver uses TCP for long answers */
};

struct ruleset_attributes { /* struct landlock_ruleset_attr as of ABI 6 */
    uint64_t files;
    uint64_t network;
    uint64_t scoped;
};

struct port_rule { /* struct landlock_net_port_attr */
    uint64_t access;
    uint64_t port;
};

#define RIGHTS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHTS_WRITE                                                                              \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                              \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | \
     LANDLOCK_ACCESS_FS_REFER)
#define RIGHTS_NEVER                                                                            \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK | \
     LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

struct rules {
    int ruleset;
    uint64_t handled;
    struct cv_error *error;
};

static int allow(int ruleset, const char *path, uint64_t rights, struct cv_error *error)
{
    cv_auto_fd int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES
                   ? 0
                   : cv_fail_errno(error, errno, "sandbox: cannot open %s", path);
    }
    struct stat status;
    CV_TRY_ERRNO(fstat(fd, &status) == 0, error, "sandbox: cannot stat %s", path);
    if (!S_ISDIR(status.st_mode)) {
        rights &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | RIGHT_TRUNCATE;
    }
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    CV_TRY_ERRNO(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0,
                 error, "sandbox: cannot allow %s", path);
    return 0;
}

static int allow_path(void *opaque, const char *path, enum sandbox_use use)
{
    const struct rules *rules = opaque;
    static const uint64_t rights[] = {
        [USE_READ] = RIGHTS_READ,
        [USE_DEVICE] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE,
        [USE_WRITE] = RIGHTS_READ | RIGHTS_WRITE | RIGHT_TRUNCATE,
    };
    return allow(rules->ruleset, path, rights[use] & rules->handled, rules->error);
}

static int allow_port(int ruleset, uint16_t port, struct cv_error *error)
{
    struct port_rule rule = {.access = RIGHT_NET_CONNECT, .port = port};
    return syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0) == 0
               ? 0
               : cv_fail_errno(error, errno, "sandbox: cannot allow port %d", port);
}

static int allow_ports(int ruleset, const struct cv_sandbox *sandbox, struct cv_error *error)
{
    int r = allow_port(ruleset, DNS_PORT, error);
    for (size_t i = 0; r == 0 && i < sandbox->port_count; i++) {
        r = allow_port(ruleset, sandbox->ports[i], error);
    }
    return r;
}

/* The size of the attributes that a kernel of this ABI knows. */
static size_t attributes_size(long abi)
{
    return abi < ABI_PORTS ? offsetof(struct ruleset_attributes, network)
           : abi < 6       ? offsetof(struct ruleset_attributes, scoped)
                           : sizeof(struct ruleset_attributes);
}

/* Restricts the calling thread by Landlock; needs no_new_privs. Adds to *layers CV_SANDBOX_FILES
 * and CV_SANDBOX_PORTS if the kernel supports them. */
static int enter_landlock(const struct cv_sandbox *sandbox, unsigned *layers,
                          struct cv_error *error)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 2) {
        /* Landlock is missing or off, or has ABI 1, which forbids every rename between directories. */
        return 0;
    }
    struct ruleset_attributes attributes = {
        .files = RIGHTS_READ | RIGHTS_WRITE | RIGHTS_NEVER,
        .network = RIGHT_NET_BIND | RIGHT_NET_CONNECT,
        .scoped = SCOPE_SIGNAL | SCOPE_ABSTRACT_UNIX,
    };
    attributes.files |= (abi >= 3 ? RIGHT_TRUNCATE : 0) | (abi >= 5 ? RIGHT_IOCTL_DEV : 0);
    cv_auto_fd int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &attributes, attributes_size(abi), 0);
    CV_TRY_ERRNO(ruleset >= 0, error, "sandbox: landlock_create_ruleset");
    struct rules rules = {ruleset, attributes.files, error};
    int r = each_path(sandbox, allow_path, &rules);
    if (r == NO_MEMORY) {
        r = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the sandbox");
    }
    if (r == 0 && abi >= ABI_PORTS && (sandbox->families & CV_SANDBOX_INET)) {
        r = allow_ports(ruleset, sandbox, error);
    }
    if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) {
        r = cv_fail_errno(error, errno, "sandbox: landlock_restrict_self");
    }
    if (r == 0) {
        *layers |= CV_SANDBOX_FILES | (abi >= ABI_PORTS ? CV_SANDBOX_PORTS : 0);
    }
    return r;
}

/* ---- mounts -------------------------------------------------------------------------------------- */

/* The system calls that move mounts by descriptors (Linux 5.2; attributes of a tree: 5.12).
 * Everything that a stage may see is copied first, so that it can be attached to the new root,
 * wherever that is. */
enum { SEEN_MAX = 64 };

/* Where the new root is mounted for a moment; any directory that every system has would do. */
static const char attach_at[] = "/usr";

struct seen {
    char *path; /* absolute; owned */
    int fd;     /* a copy of the mount there */
    bool is_directory;
};

struct view {
    struct seen seen[SEEN_MAX];
    size_t count;
};

static void view_deinit(struct view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        close(view->seen[i].fd);
        free(view->seen[i].path);
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct view, view_deinit)

static uint64_t attributes_of(enum sandbox_use use)
{
    switch (use) {
    case USE_READ:
        return MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
    case USE_WRITE:
        return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    case USE_DEVICE:
        break;
    }
    return MOUNT_ATTR_NOSUID;
}

static int set_attributes(int fd, uint64_t set, unsigned flags)
{
    struct mount_attr attributes = {.attr_set = set};
    return mount_setattr(fd, "", AT_EMPTY_PATH | flags, &attributes, sizeof(attributes));
}

/* Copies a mount. A path that does not exist, or that this user may not see, is skipped; any other
 * failure ends the attempt to make a root. */
static int copy_mount(void *opaque, const char *path, enum sandbox_use use)
{
    struct view *view = opaque;
    struct stat status;
    if (path[0] != '/' || view->count == SEEN_MAX) {
        return -1;
    }
    cv_auto_fd int fd =
        open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -1;
    }
    if (fstat(fd, &status) != 0 || set_attributes(fd, attributes_of(use), AT_RECURSIVE) != 0) {
        return -1;
    }
    struct seen *seen = &view->seen[view->count];
    seen->path = strdup(path);
    if (!seen->path) {
        return NO_MEMORY;
    }
    seen->fd = cv_take_fd(&fd);
    seen->is_directory = S_ISDIR(status.st_mode);
    view->count++;
    return 0;
}

/* Makes the parent directories of `path`, and as its mount point a directory or an empty file. */
static int make_place(int root, const char *path, bool is_directory)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        if (part[0] && mkdirat(root, part, 0755) != 0 && errno != EEXIST) {
            return -1;
        }
    }
    if (is_directory) {
        return mkdirat(root, path, 0755) == 0 || errno == EEXIST ? 0 : -1;
    }
    cv_auto_fd int file = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return file >= 0 || errno == EEXIST ? 0 : -1;
}

static int attach(const struct view *view, int root)
{
    for (size_t i = 0; i < view->count; i++) {
        const struct seen *seen = &view->seen[i];
        const char *place = seen->path + strspn(seen->path, "/");
        if (make_place(root, place, seen->is_directory) != 0 ||
            move_mount(seen->fd, "", root, place, MOVE_MOUNT_F_EMPTY_PATH) != 0) {
            return -1;
        }
    }
    return set_attributes(root, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0);
}

static int new_root(void)
{
    cv_auto_fd int kind = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (kind < 0 || fsconfig(kind, FSCONFIG_SET_STRING, "mode", "0755", 0) != 0 ||
        fsconfig(kind, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0) {
        return -1;
    }
    return fsmount(kind, FSMOUNT_CLOEXEC, 0);
}

static int turn_to(int root)
{
    /* pivot_root mounts the old root over the new one; it is unmounted with everything below it. */
    return fchdir(root) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
                   umount2(".", MNT_DETACH) == 0
               ? chdir("/")
               : -1;
}

/* Gives the calling process, in its own mount namespace, a root that contains only what each_path
 * names, and adds CV_SANDBOX_MOUNTS to *layers. Nothing changes if the kernel or the machine does
 * not allow it, or if the stage has sockets. */
static void enter_mounts(const struct cv_sandbox *sandbox, unsigned *layers)
{
    /* A sanitizer's leak check looks for this process's number in /proc. */
    if (CV_UNDER_SANITIZER || sandbox->families) {
        return;
    }
    cv_auto(view_deinit) struct view view = {.count = 0};
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        each_path(sandbox, copy_mount, &view) != 0) {
        return;
    }
    cv_auto_fd int root = new_root();
    if (root < 0 || move_mount(root, "", AT_FDCWD, attach_at, MOVE_MOUNT_F_EMPTY_PATH) != 0) {
        return;
    }
    if (attach(&view, root) == 0 && turn_to(root) == 0) {
        *layers |= CV_SANDBOX_MOUNTS;
    } else {
        (void)umount2(attach_at, MNT_DETACH); /* the old root is unchanged */
    }
}

enum {
    SIGNALS_MAX = 256,    /* pending signals; the kernel counts them per user */
    THREADS_MAX = 1024,   /* a decoder and an encoder each start as many as there are CPUs */
    COUNTED_USER = 65534, /* "nobody" on all systems; any user but root would do */
};

static const unsigned required =
    CV_SANDBOX_PRIVILEGES | CV_SANDBOX_FILES | CV_SANDBOX_CALLS; /* see docs/design/sandbox.md */

/* Changes the real user id if it is root's, because the kernel does not limit root's threads, in
 * any namespace. The effective id, which decides about files, is kept; the processes of the user
 * "nobody" are counted in another namespace. */
static bool set_aside_root(struct rlimit *before)
{
    if (getuid() != 0 || getrlimit(RLIMIT_NPROC, before) != 0) {
        return false;
    }
    /* The limit in force when a namespace is made applies to all of root's processes together, so
     * it is lifted for the moment. */
    static const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    const struct rlimit most = {before->rlim_max, before->rlim_max};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) {
        (void)setrlimit(RLIMIT_NPROC, &most);
    }
    return setresuid(COUNTED_USER, (uid_t)-1, (uid_t)-1) == 0;
}

static void write_setting(const char *path, const char *text)
{
    cv_auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, text, strlen(text)) < 0) {
        return; /* the own root will be reported as missing */
    }
}

/* Maps this user and group to themselves: in a user namespace's own file systems only mapped users
 * can make files. */
static void name_user(uid_t user, gid_t group)
{
    char line[64];
    write_setting("/proc/self/setgroups", "deny");
    (void)snprintf(line, sizeof(line), "%u %u 1", user, user);
    write_setting("/proc/self/uid_map", line);
    (void)snprintf(line, sizeof(line), "%u %u 1", group, group);
    write_setting("/proc/self/gid_map", line);
}

/* Enters new namespaces. A user namespace allows the others without privileges; if it is refused
 * (by a container's filter or a setting of the machine), root does not need it. The kernel counts a
 * process's threads per user namespace, so that their number can be limited. */
static void separate(const struct cv_sandbox *sandbox, unsigned *layers)
{
    int at_end = 0; /* a change of credentials may clear this flag */
    (void)prctl(PR_GET_PDEATHSIG, &at_end, 0, 0, 0);
    int wanted = CLONE_NEWIPC | CLONE_NEWUTS | (sandbox->families ? 0 : CLONE_NEWNET | CLONE_NEWNS);
    uid_t user = geteuid();
    gid_t group = getegid();
    struct rlimit threads = {THREADS_MAX, THREADS_MAX}, before;
    bool is_set_aside = !CV_UNDER_SANITIZER && set_aside_root(&before);
    bool has_user = unshare(CLONE_NEWUSER | wanted) == 0;
    if (is_set_aside && !has_user && setresuid(0, (uid_t)-1, (uid_t)-1) == 0) {
        (void)setrlimit(RLIMIT_NPROC, &before);
    }
    if (has_user || unshare(wanted) == 0) {
        *layers |= CV_SANDBOX_NAMESPACES;
    }
    if (has_user) {
        name_user(user, group);
    }
    if ((*layers & CV_SANDBOX_NAMESPACES) && !sandbox->families) {
        enter_mounts(sandbox, layers);
    }
    (void)prctl(PR_SET_PDEATHSIG, at_end, 0, 0, 0);
    if (has_user && !CV_UNDER_SANITIZER) {
        (void)setrlimit(RLIMIT_NPROC, &threads);
    }
}

/* Drops all capabilities. If the worker runs as root, they would bypass the other layers. */
static int drop_capabilities(unsigned *layers, struct cv_error *error)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
    (void)memset(none, 0, sizeof(none));
    CV_TRY_ERRNO(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, error, "sandbox: no_new_privs");
    CV_TRY_ERRNO(syscall(SYS_capset, &header, none) == 0, error, "sandbox: capset");
    *layers |= CV_SANDBOX_PRIVILEGES;
    return 0;
}

static int check_required(unsigned layers, struct cv_error *error)
{
    char text[CV_SANDBOX_TEXT_SIZE];
    if ((layers & required) == required ||
        strcmp(cv_env("CORTANA_SANDBOX", "on"), "require") != 0) {
        return 0;
    }
    cv_sandbox_describe(layers, text);
    return cv_fail(error, CV_ERROR_CONFIGURATION,
                   "CORTANA_SANDBOX=require, and this machine's sandbox has: %s", text);
}

int cv_sandbox_enter(const struct cv_sandbox *sandbox, unsigned *ret_layers, struct cv_error *error)
{
    unsigned layers = 0;
    if (strcmp(cv_env("CORTANA_SANDBOX", "on"), "off") == 0) {
        *ret_layers = layers;
        return 0;
    }
    static const struct rlimit signals = {SIGNALS_MAX, SIGNALS_MAX};
    (void)setrlimit(RLIMIT_SIGPENDING, &signals);
    separate(sandbox, &layers);
    CV_TRY(drop_capabilities(&layers, error));
    CV_TRY(enter_landlock(sandbox, &layers, error));
    CV_TRY(cv_system_calls_enter(sandbox, &layers, error));
    CV_TRY(check_required(layers, error));
    *ret_layers = layers;
    return 0;
}

/* ---- trying the sandbox at the start --------------------------------------------------------- */

struct trial {
    int result;
    unsigned layers;
    struct cv_error error;
};

int cv_sandbox_try(const struct cv_sandbox *sandbox, unsigned *ret_layers, struct cv_error *error)
{
    int ends[2];
    CV_TRY_ERRNO(pipe(ends) == 0, error, "cannot make a pipe");
    cv_auto_fd int from = ends[0], to = ends[1];
    struct trial trial = {.result = -1};
    pid_t pid = fork();
    if (pid == 0) {
        /* Dumpable as a stage is: a worker is not, and so could not map its user. */
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        trial.result = cv_sandbox_enter(sandbox, &trial.layers, &trial.error);
        _exit(write(to, &trial, sizeof(trial)) == (ssize_t)sizeof(trial) ? 0 : 1);
    }
    close(cv_take_fd(&to));
    bool told = pid > 0 && read(from, &trial, sizeof(trial)) == (ssize_t)sizeof(trial);
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0);
    }
    if (!told) {
        return cv_fail(error, CV_ERROR_INTERNAL, "the sandbox cannot be tried");
    }
    if (trial.result < 0) {
        *error = trial.error;
    } else {
        *ret_layers = trial.layers;
    }
    return trial.result;
}

void cv_sandbox_describe(unsigned layers, char text[CV_SANDBOX_TEXT_SIZE])
{
    static const struct {
        unsigned layer;
        const char *name;
    } names[] = {
        {CV_SANDBOX_PRIVILEGES, "privileges"}, {CV_SANDBOX_NAMESPACES, "namespaces"},
        {CV_SANDBOX_MOUNTS, "mounts"},         {CV_SANDBOX_FILES, "files"},
        {CV_SANDBOX_CALLS, "system calls"},    {CV_SANDBOX_PORTS, "ports"},
    };
    size_t length = 0;
    text[0] = '\0';
    for (int missing = 0; missing < 2; missing++) {
        const char *before = missing ? (length ? "; missing: " : "none; missing: ") : "";
        for (size_t i = 0; i < CV_COUNT(names); i++) {
            if (!(layers & names[i].layer) == (missing == 1)) {
                length += (size_t)snprintf(text + length, CV_SANDBOX_TEXT_SIZE - length, "%s%s",
                                           before, names[i].name);
                before = ", ";
            }
        }
    }
}
