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

static int allow_path(void *opaque, const char *path, enum cv_sandbox_use use)
{
    const struct rules *rules = opaque;
    static const uint64_t rights[] = {
        [CV_SANDBOX_READ] = RIGHTS_READ,
        [CV_SANDBOX_DEVICE] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE,
        [CV_SANDBOX_WRITE] = RIGHTS_READ | RIGHTS_WRITE | RIGHT_TRUNCATE,
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
    struct rules rules = {ruleset, attributes.files, error};
    int r = cv_sandbox_each_path(sandbox, allow_path, &rules);
    if (r == CV_SANDBOX_NO_MEMORY) {
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
