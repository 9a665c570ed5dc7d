/* The list of allowed system calls. It was made with scripts/sandbox_calls, which shows the calls
 * of a stage: sample and transcode on every file of fixtures/, ocr and clip_generate on the feed,
 * segment_index, embed, webhook and object_remove with and without names to resolve. The system
 * tests run every stage under it, with and without AddressSanitizer. It also has the close
 * relatives that another version of the C library or of a codec would use. Calls that are not
 * listed, or not with these arguments, fail with ENOSYS, as on an older kernel, so that libraries
 * fall back. */
#include "common/worker/system_calls.h"

#include "common/worker/sanitizer.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

/* Names, not numbers: a name that this libseccomp or this machine does not know is skipped. */
static const char *const allowed[] = {
    /* files; Landlock restricts which */
    "open",
    "openat",
    "close",
    "close_range",
    "read",
    "readv",
    "pread64",
    "preadv",
    "preadv2",
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "lseek",
    "_llseek",
    "sendfile",
    "copy_file_range",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "ftruncate",
    "fallocate",
    "fadvise64",
    "readahead",
    "stat",
    "lstat",
    "fstat",
    "newfstatat",
    "statx",
    "statfs",
    "statfs64",
    "fstatfs",
    "fstatfs64",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getdents",
    "getdents64",
    "getcwd",
    "dup",
    "dup2",
    "dup3",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "mkdir",
    "mkdirat",
    "rmdir",
    "umask",
    /* memory */
    "brk",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "mincore",
    "msync",
    "membarrier",
    "get_mempolicy",
    /* threads of this process */
    "futex",
    "futex_waitv",
    "set_robust_list",
    "get_robust_list",
    "rseq",
    "set_tid_address",
    "sched_yield",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "getcpu",
    "exit",
    "exit_group",
    /* time */
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "time",
    "times",
    /* signals to itself */
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigreturn",
    "rt_sigpending",
    "rt_sigtimedwait",
    "rt_sigsuspend",
    "sigaltstack",
    "pause",
    "restart_syscall",
    "alarm",
    /* waiting, and descriptors that were open at the start */
    "poll",
    "ppoll",
    "select",
    "_newselect",
    "pselect6",
    "eventfd",
    "eventfd2",
    "pipe",
    "pipe2",
    "recvmsg",
    "recvfrom",
    "shutdown",
    /* information about itself and the machine */
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getresuid",
    "getresgid",
    "getgroups",
    "getpgrp",
    "getpgid",
    "getsid",
    "capget",
    "getrlimit",
    "ugetrlimit",
    "getrusage",
    "getpriority",
    "sysinfo",
    "uname",
    "getrandom",
    "arch_prctl",
};

/* Allowed in addition if the stage has sockets. None of them accepts connections. */
static const char *const allowed_with_network[] = {
    "connect", "getsockopt", "setsockopt", "getsockname", "getpeername",
};

/* The leak check at the end starts a process that stops and traces this one. */
static const char *const allowed_to_sanitizers[] = {
    "clone",
    "fork",
    "vfork",
    "wait4",
    "waitid",
    "ptrace",
    "prctl",
    "prlimit64",
    "sched_setaffinity",
    "process_vm_readv",
    "kill",
    "tgkill",
};

/* Flags for memory that RLIMIT_DATA does not count, or that is reserved for others. */
static const uint32_t uncounted_mappings = MAP_GROWSDOWN | MAP_HUGETLB;

/* fcntl without F_SETOWN and F_SETSIG, which make the kernel send signals in this process's name;
 * ioctl of pipes and files, not of terminals (TIOCSTI types into one). */
static const int fcntl_commands[] = {
    F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETPIPE_SZ,
};
static const unsigned ioctl_requests[] = {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX};
static const unsigned prctl_options[] = {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_GET_DUMPABLE,
                                         PR_GET_NO_NEW_PRIVS};

struct rules {
    scmp_filter_ctx filter;
    int result; /* the first failure */
};

static void name_all(struct rules *rules, const char *const *names, size_t count, uint32_t action)
{
    for (size_t i = 0; i < count && rules->result >= 0; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);
        if (number >= 0) {
            rules->result = seccomp_rule_add_array(rules->filter, action, number, 0, NULL);
        }
    }
}

static void allow_if(struct rules *rules, int number, struct scmp_arg_cmp condition)
{
    if (rules->result >= 0) {
        rules->result =
            seccomp_rule_add_array(rules->filter, SCMP_ACT_ALLOW, number, 1, &condition);
    }
}

/* The kernel uses the lower 32 bits of these arguments, and so does the filter. */
static struct scmp_arg_cmp low_half(unsigned argument, uint32_t value)
{
    return SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, UINT32_MAX, value);
}

/* Allows private memory and files; not shared memory without a file, which is charged to nobody. */
static void allow_mappings(struct rules *rules)
{
    static const uint32_t kinds[] = {MAP_SHARED, MAP_ANONYMOUS};
    for (size_t i = 0; i < CV_COUNT(kinds); i++) {
        struct scmp_arg_cmp is_without =
            SCMP_CMP64(3, SCMP_CMP_MASKED_EQ, uncounted_mappings | kinds[i], 0);
        allow_if(rules, SCMP_SYS(mmap), is_without);
        allow_if(rules, SCMP_SYS(mmap2), is_without);
    }
}

static void allow_arguments(struct rules *rules)
{
    allow_mappings(rules);
    for (size_t i = 0; i < CV_COUNT(fcntl_commands); i++) {
        allow_if(rules, SCMP_SYS(fcntl), low_half(1, (uint32_t)fcntl_commands[i]));
        allow_if(rules, SCMP_SYS(fcntl64), low_half(1, (uint32_t)fcntl_commands[i]));
    }
    for (size_t i = 0; i < CV_COUNT(ioctl_requests); i++) {
        allow_if(rules, SCMP_SYS(ioctl), low_half(1, ioctl_requests[i]));
    }
    if (CV_UNDER_SANITIZER) {
        return;
    }
    for (size_t i = 0; i < CV_COUNT(prctl_options); i++) {
        allow_if(rules, SCMP_SYS(prctl), low_half(0, prctl_options[i]));
    }
    uint32_t self = (uint32_t)getpid();
    allow_if(rules, SCMP_SYS(kill), low_half(0, self));
    allow_if(rules, SCMP_SYS(tgkill), low_half(0, self));
    allow_if(rules, SCMP_SYS(prlimit64), low_half(0, 0));
    /* Allows threads, but no processes: a clone must share all of these, and gets no namespace of
     * its own. */
    uint64_t shared = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
    uint64_t apart = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                     CLONE_NEWPID | CLONE_NEWNET;
    allow_if(rules, SCMP_SYS(clone), SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, shared | apart, shared));
}

/* Without MSG_FASTOPEN, with which sending opens a TCP connection that the rule for ports does not
 * see. */
static void allow_sending(struct rules *rules, unsigned families)
{
    const struct scmp_arg_cmp is_plain = SCMP_CMP64(3, SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0);
    allow_if(rules, SCMP_SYS(sendto), is_plain);
    if (families) {
        allow_if(rules, SCMP_SYS(sendmmsg), is_plain);
    }
}

/* Allows only TCP and UDP: the rule for ports applies to TCP, but not to Multipath TCP or SCTP. */
static void allow_inet(struct rules *rules)
{
    static const uint32_t families[] = {AF_INET, AF_INET6};
    static const struct {
        uint32_t type, protocol;
    } kinds[] = {
        {SOCK_STREAM, 0},
        {SOCK_STREAM, IPPROTO_TCP},
        {SOCK_DGRAM, 0},
        {SOCK_DGRAM, IPPROTO_UDP},
    };
    const uint64_t type_mask = UINT32_MAX & ~(uint32_t)(SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (size_t i = 0; i < CV_COUNT(families) * CV_COUNT(kinds) && rules->result >= 0; i++) {
        uint32_t family = families[i / CV_COUNT(kinds)];
        uint32_t type = kinds[i % CV_COUNT(kinds)].type;
        const struct scmp_arg_cmp conditions[] = {
            low_half(0, family),
            SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, type_mask, type),
            low_half(2, kinds[i % CV_COUNT(kinds)].protocol),
        };
        rules->result = seccomp_rule_add_array(rules->filter, SCMP_ACT_ALLOW, SCMP_SYS(socket),
                                               (unsigned)CV_COUNT(conditions), conditions);
    }
}

static void allow_sockets(struct rules *rules, unsigned families)
{
    allow_sending(rules, families);
    if (families) {
        name_all(rules, allowed_with_network, CV_COUNT(allowed_with_network), SCMP_ACT_ALLOW);
    }
    if (families & CV_SANDBOX_INET) {
        allow_inet(rules);
    }
    if (families & CV_SANDBOX_UNIX) {
        allow_if(rules, SCMP_SYS(socket), low_half(0, AF_UNIX));
    }
    if (!families) {
        static const char *const names[] = {"socket", "connect"};
        name_all(rules, names, CV_COUNT(names), SCMP_ACT_ERRNO(EACCES));
    }
}

static void add_rules(struct rules *rules, const struct cv_sandbox *sandbox)
{
    name_all(rules, allowed, CV_COUNT(allowed), SCMP_ACT_ALLOW);
    allow_arguments(rules);
    allow_sockets(rules, sandbox->families);
    if (CV_UNDER_SANITIZER) {
        name_all(rules, allowed_to_sanitizers, CV_COUNT(allowed_to_sanitizers), SCMP_ACT_ALLOW);
    }
}

int cv_system_calls_enter(const struct cv_sandbox *sandbox, unsigned *layers,
                          struct cv_error *error)
{
    struct rules rules = {.filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS))};
    CV_TRY_MEMORY(rules.filter, error, "the sandbox");
    /* A binary search of the numbers instead of a comparison with each, because the filter runs at
     * every call. */
    (void)seccomp_attr_set(rules.filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    add_rules(&rules, sandbox);
    if (rules.result < 0) {
        seccomp_release(rules.filter);
        return cv_fail_errno(error, -rules.result, "sandbox: cannot write the system call filter");
    }
    int r = seccomp_load(rules.filter);
    seccomp_release(rules.filter);
    if (r == 0) {
        *layers |= CV_SANDBOX_CALLS;
        return 0;
    }
    bool missing = r == -EINVAL || r == -ENOSYS || r == -EOPNOTSUPP || r == -ECANCELED;
    return missing ? 0 : cv_fail_errno(error, -r, "sandbox: cannot load the system call filter");
}
