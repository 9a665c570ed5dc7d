/* Three nets, none of which needs privileges (PR_SET_NO_NEW_PRIVS):
 *
 * Capabilities go, where the worker runs as root (containers often do): they would see past the
 * others, CAP_PERFMON for one reads any process' environment. Only the right to use files of
 * another owner stays, within the bounds of Landlock.
 *
 * Landlock bounds files: the stage writes in its scratch directory and in a directory store, reads
 * those and the system's directories, and executes nothing. It also keeps the stage from reading
 * other processes (/proc/PID/environ, where a database password may stand) and from signalling
 * them.
 *
 * The system call filter is a deny-list. An allow-list would be tighter, but what codecs, OpenMP
 * and the C library call differs between their versions, and a call missing from the list shows
 * only with the rare video that takes that path. Denied is what no decoder needs and what attacks
 * on the kernel or on other processes are made of: new processes and programs, tracing, mounts and
 * namespaces, kernel modules and BPF, keys, io_uring, other processes' memory, and sockets where
 * the stage needs no network. */
#include "common/worker/sandbox_internal.h"
#include "common/worker/sanitizer_internal.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* ---- capabilities ---------------------------------------------------------------------------- */

static int drop_capabilities(struct cv_error *error)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, sets) != 0) {
        return cv_fail_errno(error, errno, "sandbox: capget");
    }
    uint32_t kept = sets[0].permitted & (1U << CAP_DAC_OVERRIDE);
    (void)memset(sets, 0, sizeof(sets));
    sets[0].permitted = kept;
    sets[0].effective = kept;
    if (syscall(SYS_capset, &header, sets) != 0) {
        return cv_fail_errno(error, errno, "sandbox: capset");
    }
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Rights newer than the oldest kernel headers this builds with; values are the kernel's ABI. */
#define RIGHT_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define RIGHT_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define RIGHT_NET_BIND (1ULL << 0)   /* ABI 4 */
#define RIGHT_NET_CONNECT (1ULL << 1)
#define SCOPE_ABSTRACT_UNIX (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)

struct ruleset_attributes { /* struct landlock_ruleset_attr as of ABI 6 */
    uint64_t files;
    uint64_t network;
    uint64_t scoped;
};

#define RIGHTS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHTS_WRITE                                                                              \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                              \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | \
     LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
#define RIGHTS_NEVER                                                                            \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK | \
     LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

/* Code, data and settings of the system. /proc is for cpuinfo and self. */
static const char *const readable_directories[] = {
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc",
    "/opt",
    "/proc",
    "/sys",
    "/run/systemd/resolve", /* where /etc/resolv.conf may point */
};
static const char *const usable_devices[] = {
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
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
    if (fstat(fd, &status) != 0) {
        return cv_fail_errno(error, errno, "sandbox: cannot stat %s", path);
    }
    if (!S_ISDIR(status.st_mode)) {
        rights &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | RIGHT_TRUNCATE;
    }
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
        return cv_fail_errno(error, errno, "sandbox: cannot allow %s", path);
    }
    return 0;
}

/* Directories named in a list "A:B:C" from the environment. */
static int allow_listed(int ruleset, const char *variable, struct cv_error *error)
{
    cv_auto_free char *list = strdup(cv_env(variable, ""));
    if (!list) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the sandbox");
    }
    char *rest = NULL;
    for (char *path = strtok_r(list, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
        int r = allow(ruleset, path, RIGHTS_READ, error);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int allow_all(int ruleset, const struct cv_sandbox *sandbox, uint64_t handled,
                     struct cv_error *error)
{
    uint64_t all = handled & (RIGHTS_READ | RIGHTS_WRITE | RIGHT_TRUNCATE);
    int r = allow(ruleset, sandbox->scratch, all, error);
    if (r == 0 && sandbox->store_directory) {
        r = allow(ruleset, sandbox->store_directory, all, error);
    }
    for (size_t i = 0; r == 0 && i < CV_COUNT(readable_directories); i++) {
        r = allow(ruleset, readable_directories[i], RIGHTS_READ, error);
    }
    for (size_t i = 0; r == 0 && i < sandbox->readable_count; i++) {
        r = allow(ruleset, sandbox->readable[i], RIGHTS_READ, error);
    }
    for (size_t i = 0; r == 0 && i < CV_COUNT(usable_devices); i++) {
        r = allow(ruleset, usable_devices[i],
                  LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE, error);
    }
    if (r == 0) {
        r = allow_listed(ruleset, "TESSDATA_PREFIX", error);
    }
    return r < 0 ? r : allow_listed(ruleset, "CORTANA_READ_PATHS", error);
}

/* The size of the attributes that a kernel of this ABI knows. */
static size_t attributes_size(long abi)
{
    return abi < 4   ? offsetof(struct ruleset_attributes, network)
           : abi < 6 ? offsetof(struct ruleset_attributes, scoped)
                     : sizeof(struct ruleset_attributes);
}

static int restrict_files(const struct cv_sandbox *sandbox, unsigned *parts, struct cv_error *error)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 2) {
        /* Absent or off; ABI 1 forbids every rename between directories, which a store needs. */
        return 0;
    }
    struct ruleset_attributes attributes = {.files = RIGHTS_READ | RIGHTS_WRITE | RIGHTS_NEVER};
    attributes.files |= (abi >= 3 ? RIGHT_TRUNCATE : 0) | (abi >= 5 ? RIGHT_IOCTL_DEV : 0);
    if (!sandbox->network) {
        attributes.network = RIGHT_NET_BIND | RIGHT_NET_CONNECT;
        attributes.scoped = SCOPE_ABSTRACT_UNIX;
    }
    attributes.scoped |= SCOPE_SIGNAL;
    cv_auto_fd int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &attributes, attributes_size(abi), 0);
    if (ruleset < 0) {
        return cv_fail_errno(error, errno, "sandbox: landlock_create_ruleset");
    }
    int r = allow_all(ruleset, sandbox, attributes.files, error);
    if (r < 0) {
        return r;
    }
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) {
        return cv_fail_errno(error, errno, "sandbox: landlock_restrict_self");
    }
    *parts |= CV_SANDBOX_FILES;
    return 0;
}

/* ---- system calls ---------------------------------------------------------------------------- */

/* Names, so that one that this libseccomp or this machine does not have is left out. */
static const char *const denied_calls[] = {
    /* other programs; other processes' memory and signals */
    "execve",
    "execveat",
    "fork",
    "vfork",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "kcmp",
    "pidfd_getfd",
    "pidfd_send_signal",
    "tkill",
    "rt_sigqueueinfo",
    /* mounts and namespaces */
    "mount",
    "umount",
    "umount2",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "pivot_root",
    "chroot",
    "unshare",
    "setns",
    /* the kernel itself */
    "bpf",
    "init_module",
    "finit_module",
    "delete_module",
    "create_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
    "syslog",
    "acct",
    "quotactl",
    "quotactl_fd",
    "iopl",
    "ioperm",
    "perf_event_open",
    "userfaultfd",
    "lookup_dcookie",
    "nfsservctl",
    "_sysctl",
    "uselib",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "fanotify_init",
    "name_to_handle_at",
    "open_by_handle_at",
    /* keys, identity, clocks, names of the machine */
    "keyctl",
    "add_key",
    "request_key",
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setgroups",
    "setfsuid",
    "setfsgid",
    "capset",
    "personality",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "stime",
    "sethostname",
    "setdomainname",
    /* special files: the store and scratch hold plain ones */
    "mknod",
    "mknodat",
};

static const char *const socket_calls[] = {
    "socket", "connect", "bind", "listen", "accept", "accept4",
};

struct scmp_scope {
    scmp_filter_ctx filter;
    int result; /* the first failure */
};

static void deny_name(struct scmp_scope *scope, const char *name, int error_number)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR || number < 0 || scope->result < 0) {
        return;
    }
    scope->result = seccomp_rule_add_array(scope->filter, SCMP_ACT_ERRNO((uint32_t)error_number),
                                           number, 0, NULL);
}

static void deny_argument(struct scmp_scope *scope, int number, struct scmp_arg_cmp condition)
{
    if (scope->result >= 0) {
        scope->result =
            seccomp_rule_add_array(scope->filter, SCMP_ACT_ERRNO(EPERM), number, 1, &condition);
    }
}

static void add_rules(struct scmp_scope *scope, bool network)
{
    for (size_t i = 0; i < CV_COUNT(denied_calls); i++) {
        bool needed = CV_UNDER_SANITIZER && (strcmp(denied_calls[i], "ptrace") == 0 ||
                                             strcmp(denied_calls[i], "fork") == 0);
        if (!needed) {
            deny_name(scope, denied_calls[i], EPERM);
        }
    }
    for (size_t i = 0; !network && i < CV_COUNT(socket_calls); i++) {
        deny_name(scope, socket_calls[i], EACCES);
    }
    scmp_datum_t self = (scmp_datum_t)getpid();
    deny_argument(scope, SCMP_SYS(kill), SCMP_A0(SCMP_CMP_NE, self, 0));
    deny_argument(scope, SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_NE, self, 0));
    deny_argument(scope, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, TIOCSTI, 0));
    /* Threads, but no processes. clone3 hides its flags in memory, where a filter cannot look; with
     * ENOSYS the C library takes clone. */
    if (!CV_UNDER_SANITIZER) {
        deny_argument(scope, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    }
    deny_argument(scope, SCMP_SYS(clone),
                  SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER));
    deny_name(scope, "clone3", ENOSYS);
}

static int restrict_calls(const struct cv_sandbox *sandbox, unsigned *parts, struct cv_error *error)
{
    struct scmp_scope scope = {.filter = seccomp_init(SCMP_ACT_ALLOW)};
    if (!scope.filter) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the sandbox");
    }
    add_rules(&scope, sandbox->network);
    if (scope.result < 0) {
        seccomp_release(scope.filter);
        return cv_fail_errno(error, -scope.result, "sandbox: cannot write the system call filter");
    }
    int r = seccomp_load(scope.filter);
    seccomp_release(scope.filter);
    if (r == 0) {
        *parts |= CV_SANDBOX_SYSTEM;
        return 0;
    }
    bool missing = r == -EINVAL || r == -ENOSYS || r == -EOPNOTSUPP || r == -ECANCELED;
    return missing ? 0 : cv_fail_errno(error, -r, "sandbox: cannot load the system call filter");
}

int cv_sandbox_enter(const struct cv_sandbox *sandbox, unsigned *ret_parts, struct cv_error *error)
{
    unsigned parts = 0;
    if (strcmp(cv_env("CORTANA_SANDBOX", "on"), "off") == 0) {
        *ret_parts = parts;
        return 0;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return cv_fail_errno(error, errno, "sandbox: no_new_privs");
    }
    int r = drop_capabilities(error);
    r = r < 0 ? r : restrict_files(sandbox, &parts, error);
    if (r < 0) {
        return r;
    }
    r = restrict_calls(sandbox, &parts, error);
    if (r < 0) {
        return r;
    }
    *ret_parts = parts;
    return 0;
}
