#include "common/worker/spawn.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* ---- environment variables ------------------------------------------------------------------- */

extern char **environ;

/* A process gets only these variables, so that no secret in the supervisor's environment needs to
 * be removed explicitly. A name that ends in '*' is a prefix. */
static const struct {
    const char *name;
    unsigned needs; /* the process must have one of these needs; 0: every process */
} admitted[] = {
    {"PATH", 0},
    {"HOME", 0},
    {"LANG", 0},
    {"LC_*", 0},
    {"TZ", 0},
    {"LD_LIBRARY_PATH", 0},
    {"LD_PRELOAD", 0},
    {"FAKETIME*", 0},
    {"TESSDATA_PREFIX", 0},
    {"OMP_THREAD_LIMIT", 0},
    {"TMPDIR", 0},
    {"LOG_LEVEL", 0},
    {"CORTANA_*", 0},
    {"ASAN_OPTIONS", 0},
    {"LSAN_OPTIONS", 0},
    {"TSAN_OPTIONS", 0},
    {"UBSAN_OPTIONS", 0},
    {"STORE_URL", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"http_proxy", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"HTTPS_PROXY", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"https_proxy", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"NO_PROXY", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"no_proxy", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"S3_*", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"AWS_*", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"COMMAND_*", CV_STAGE_RUNS_PROGRAMS},
    {"DATABASE_URL", CV_STAGE_NEEDS_DATABASE},
    {"PG*", CV_STAGE_NEEDS_DATABASE},
    {"EMBED_*", CV_STAGE_NEEDS_EMBEDDER},
    {"TRANSCRIBE_*", CV_NEEDS_SPEECH_ENDPOINT},
    {"SMTP_URL", CV_STAGE_NEEDS_MAIL_SERVER},
};

bool cv_variables_admits(const char *entry, unsigned needs)
{
    size_t length = strcspn(entry, "=");
    char whole[NAME_MAX];
    (void)snprintf(whole, sizeof(whole), "%.*s", (int)length, entry);
    bool is_secret =
        cv_setting_is_secret(whole); /* a prefix without needs does not admit a secret */
    for (size_t i = 0; i < CV_COUNT(admitted); i++) {
        const char *name = admitted[i].name;
        size_t name_length = strlen(name);
        bool is_prefix = name[name_length - 1] == '*';
        bool matches = is_prefix ? strncmp(entry, name, name_length - 1) == 0
                                 : name_length == length && strncmp(entry, name, length) == 0;
        if (matches && ((admitted[i].needs == 0 && !is_secret) || (admitted[i].needs & needs))) {
            return true;
        }
    }
    return false;
}

void cv_variables_wipe(unsigned needs)
{
    char **kept = environ;
    for (char **entry = environ; *entry; entry++) {
        if (cv_variables_admits(*entry, needs)) {
            *kept++ = *entry;
        } else {
            explicit_bzero(*entry, strlen(*entry));
        }
    }
    *kept = NULL;
}

extern char **environ;

enum { FIRST_FREE_FD = 10 }; /* higher than all descriptors that a child gets */

int cv_spawn_variable(struct cv_spawn *spawn, char *entry, struct cv_error *error)
{
    if (spawn->variable_count + 1 >= CV_SPAWN_VARIABLES_MAX) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "more than %d environment variables",
                       CV_SPAWN_VARIABLES_MAX);
    }
    spawn->environment[spawn->variable_count++] = entry;
    return 0;
}

static bool is_own(const char *entry)
{
    return strncmp(entry, "CORTANA_JOB_", 12) == 0 || strncmp(entry, "TMPDIR=", 7) == 0 ||
           strncmp(entry, "OMP_THREAD_LIMIT=", 17) == 0;
}

static bool has_variable(const struct cv_spawn *spawn, const char *entry)
{
    size_t length = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < spawn->variable_count; i++) {
        if (strncmp(spawn->environment[i], entry, length) == 0) {
            return true;
        }
    }
    return false;
}

int cv_spawn_inherit(struct cv_spawn *spawn, unsigned needs, struct cv_error *error)
{
    int result = 0;
    for (char **entry = environ; result == 0 && *entry; entry++) {
        if (!is_own(*entry) && !has_variable(spawn, *entry) && cv_variables_admits(*entry, needs)) {
            result = cv_spawn_variable(spawn, *entry, error);
        }
    }
    return result;
}

void cv_spawn_limit(struct cv_spawn *spawn, int resource, int64_t soft, int64_t hard)
{
    struct rlimit now;
    rlim_t most =
        getrlimit((__rlimit_resource_t)resource, &now) == 0 ? now.rlim_max : RLIM_INFINITY;
    struct rlimit limit = {(rlim_t)soft, (rlim_t)hard};
    limit.rlim_max = limit.rlim_max < most ? limit.rlim_max : most;
    limit.rlim_cur = limit.rlim_cur < limit.rlim_max ? limit.rlim_cur : limit.rlim_max;
    spawn->limits[spawn->limit_count].resource = resource;
    spawn->limits[spawn->limit_count].limit = limit;
    spawn->limit_count++;
}

/* ---- in the child ---------------------------------------------------------------------------- */

static void close_from(unsigned first)
{
    if (syscall(SYS_close_range, first, ~0U, 0) != 0) {
        for (int fd = (int)first; fd < 65536; fd++) {
            (void)close(fd);
        }
    }
}

static void write_setting(const char *path, const char *value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t written = write(fd, value, strlen(value));
        (void)written;
        (void)close(fd);
    }
}

/* Makes the kernel kill the stage, not the supervisor, when the machine runs out of memory. */
static void prefer_as_victim(void)
{
    write_setting("/proc/self/oom_score_adj", "500");
}

/* Reduces the process to half of the CPU time that its worker gets, whatever the worker's niceness.
 * If the kernel groups processes by session, niceness counts only within a session, so the
 * session's own niceness is set. */
static void yield_to_others(void)
{
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 3);
    write_setting("/proc/self/autogroup", "3");
}

static _Noreturn void give_up(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
    _exit(CV_EXIT_RETRY);
}

/* Copies the files to descriptors above all targets first, so that none is overwritten before it is
 * copied. */
static void place_files(const struct cv_spawn *spawn)
{
    int high[CV_SPAWN_FILES_MAX];
    for (size_t i = 0; i < spawn->file_count; i++) {
        int fd = spawn->files[i];
        high[i] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (fd >= 0 && high[i] < 0) {
            give_up("worker: no descriptor is free\n");
        }
    }
    for (size_t i = 0; i < spawn->file_count; i++) {
        if (high[i] < 0) {
            (void)close((int)i);
        } else if (dup2(high[i], (int)i) < 0) {
            give_up("worker: a descriptor cannot be handed on\n");
        }
    }
    close_from((unsigned)spawn->file_count);
}

/* Joins the cgroup or exits: without it the stage would have no limit on its threads. The job is
 * tried again elsewhere, or later. */
static void enter_group(int group_fd)
{
    int fd = openat(group_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1) {
        give_up("worker: a stage's cgroup cannot be entered\n");
    }
}

static _Noreturn void become(const struct cv_spawn *spawn, pid_t parent)
{
    sigset_t none;
    (void)sigemptyset(&none);
    if (spawn->is_stage) {
        (void)setsid();
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent) {
        _exit(CV_EXIT_RETRY); /* the supervisor died before this process was set to die with it */
    }
    if (spawn->has_group) {
        enter_group(spawn->group_fd);
    }
    place_files(spawn);
    if (spawn->is_stage) {
        prefer_as_victim();
    }
    if (spawn->yields) {
        yield_to_others();
    }
    for (size_t i = 0; i < spawn->limit_count; i++) {
        if (setrlimit((__rlimit_resource_t)spawn->limits[i].resource, &spawn->limits[i].limit) !=
            0) {
            give_up("worker: a resource limit cannot be set\n");
        }
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        give_up("worker: no_new_privs cannot be set\n");
    }
    (void)signal(SIGPIPE, SIG_DFL);
    if (spawn->is_stage) {
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
    }
    (void)execve("/proc/self/exe", spawn->arguments, spawn->environment);
    give_up("worker: /proc/self/exe cannot be executed\n");
}

int cv_spawn(const struct cv_spawn *spawn, pid_t *ret_pid, struct cv_error *error)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    CV_TRY_ERRNO(pid >= 0, error, "cannot start a process");
    if (pid == 0) {
        become(spawn, parent);
    }
    *ret_pid = pid;
    return 0;
}
