#include "common/worker/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Rights newer than the oldest kernel headers this builds with; values are the kernel's ABI. */
#define RIGHT_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define RIGHT_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define RIGHT_NET_BIND (1ULL << 0)   /* ABI 4 */
#define RIGHT_NET_CONNECT (1ULL << 1)
#define SCOPE_ABSTRACT_UNIX (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)
enum {
    RULE_NET_PORT = 2,
    ABI_PORTS = 4,
    DNS_PORT = 53, /* a resolver falls back to TCP for long answers */
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

/* What the libraries of a stage read while it works. */
static const char *const readable[] = {
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache", /* a library that is loaded late */
    "/etc/fonts",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
    "/proc/self", /* as it is now: this process */
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
};
/* … and of one that resolves names and checks certificates. */
static const char *const readable_with_network[] = {
    "/etc/resolv.conf", "/etc/hosts",           "/etc/nsswitch.conf",   "/etc/host.conf",
    "/etc/gai.conf",    "/etc/services",        "/etc/protocols",       "/etc/ssl",
    "/etc/pki",         "/etc/ca-certificates", "/run/systemd/resolve",
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

static int allow_paths(int ruleset, const char *const *paths, size_t count, uint64_t rights,
                       struct cv_error *error)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        r = allow(ruleset, paths[i], rights, error);
    }
    return r;
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

static int allow_files(int ruleset, const struct cv_sandbox *sandbox, uint64_t handled,
                       struct cv_error *error)
{
    uint64_t all = handled & (RIGHTS_READ | RIGHTS_WRITE | RIGHT_TRUNCATE);
    uint64_t use = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
    int r = allow(ruleset, sandbox->scratch, all, error);
    r = r < 0 ? r : allow_paths(ruleset, readable, CV_COUNT(readable), RIGHTS_READ, error);
    r = r < 0 ? r : allow_paths(ruleset, usable_devices, CV_COUNT(usable_devices), use, error);
    if (r == 0 && (sandbox->families & CV_SANDBOX_INET)) {
        r = allow_paths(ruleset, readable_with_network, CV_COUNT(readable_with_network),
                        RIGHTS_READ, error);
    }
    r = r < 0 ? r : allow_listed(ruleset, "TESSDATA_PREFIX", error);
    return r < 0 ? r : allow_listed(ruleset, "CORTANA_READ_PATHS", error);
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

int cv_landlock_enter(const struct cv_sandbox *sandbox, unsigned *layers, struct cv_error *error)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 2) {
        /* Absent or off; ABI 1 forbids every rename between directories. */
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
    if (ruleset < 0) {
        return cv_fail_errno(error, errno, "sandbox: landlock_create_ruleset");
    }
    int r = allow_files(ruleset, sandbox, attributes.files, error);
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
