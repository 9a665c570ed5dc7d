/* Layers that need no privileges, each of which holds by itself; docs/design/sandbox.md says against
 * what. The order matters: a namespace is made before system calls are taken away, and gives
 * capabilities of its own, which go next. */
#include "common/worker/sandbox.h"

#include "common/worker/landlock.h"
#include "common/worker/mounts.h"
#include "common/worker/sanitizer.h"
#include "common/worker/system_calls.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    SIGNALS_MAX =
        256, /* that wait; the kernel counts them by user, and a stage shall not have all of them */
    THREADS_MAX = 1024,   /* a decoder and an encoder each start as many as there are CPUs */
    COUNTED_USER = 65534, /* "nobody" everywhere; any but root's would do */
};

static const unsigned required =
    CV_SANDBOX_PRIVILEGES | CV_SANDBOX_FILES | CV_SANDBOX_CALLS; /* see docs/design/sandbox.md */

/* The kernel bounds nobody's threads whose real user id is root's, in no namespace. The effective id, which
 * decides about files, stays; nobody's own processes are counted elsewhere, by another namespace. */
static bool set_aside_root(struct rlimit *before)
{
    if (getuid() != 0 || getrlimit(RLIMIT_NPROC, before) != 0) {
        return false;
    }
    /* What holds when a namespace is made, holds for all of root's processes together. */
    static const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    const struct rlimit most = {before->rlim_max, before->rlim_max};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) {
        (void)setrlimit(RLIMIT_NPROC, &most);
    }
    return setresuid(COUNTED_USER, (uid_t)-1, (uid_t)-1) == 0;
}

static void tell_kernel(const char *path, const char *text)
{
    cv_auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, text, strlen(text)) < 0) {
        return; /* the root of its own will be missing, and named so */
    }
}

/* Files can be made in a user namespace's own file systems by users that it knows: this one, as itself. */
static void name_user(uid_t user, gid_t group)
{
    char line[64];
    tell_kernel("/proc/self/setgroups", "deny");
    (void)snprintf(line, sizeof(line), "%u %u 1", user, user);
    tell_kernel("/proc/self/uid_map", line);
    (void)snprintf(line, sizeof(line), "%u %u 1", group, group);
    tell_kernel("/proc/self/gid_map", line);
}

/* A user namespace makes the others possible without privileges; where it is refused (a container's
 * own filter, a setting of the machine), root can do without it. In a user namespace of its own, a
 * process' threads are counted by themselves, so that their number can be bounded. */
static void separate(const struct cv_sandbox *sandbox, unsigned *layers)
{
    int at_end = 0; /* a change of credentials may take it away */
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
        cv_mounts_enter(sandbox, layers);
    }
    (void)prctl(PR_SET_PDEATHSIG, at_end, 0, 0, 0);
    if (has_user && !CV_UNDER_SANITIZER) {
        (void)setrlimit(RLIMIT_NPROC, &threads);
    }
}

/* All of them, where the worker runs as root: they would see past the other layers. */
static int drop_capabilities(unsigned *layers, struct cv_error *error)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
    (void)memset(none, 0, sizeof(none));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return cv_fail_errno(error, errno, "sandbox: no_new_privs");
    }
    if (syscall(SYS_capset, &header, none) != 0) {
        return cv_fail_errno(error, errno, "sandbox: capset");
    }
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
    int r = drop_capabilities(&layers, error);
    r = r < 0 ? r : cv_landlock_enter(sandbox, &layers, error);
    r = r < 0 ? r : cv_system_calls_enter(sandbox, &layers, error);
    r = r < 0 ? r : check_required(layers, error);
    if (r == 0) {
        *ret_layers = layers;
    }
    return r;
}

/* ---- before it is needed --------------------------------------------------------------------- */

struct trial {
    int result;
    unsigned layers;
    struct cv_error error;
};

int cv_sandbox_try(const struct cv_sandbox *sandbox, unsigned *ret_layers, struct cv_error *error)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return cv_fail_errno(error, errno, "cannot make a pipe");
    }
    cv_auto_fd int from = ends[0], to = ends[1];
    struct trial trial = {.result = -1};
    pid_t pid = fork();
    if (pid == 0) {
        /* As a stage is; a worker is not, and could not name its user to the kernel. */
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
