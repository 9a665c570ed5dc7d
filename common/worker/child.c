#include "common/worker/cgroup_internal.h"
#include "common/worker/child_internal.h"
#include "common/worker/sanitizer_internal.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

enum {
    PROGRESS_TARGET = 3, /* the descriptor as the stage sees it, behind the standard three */
    FIRST_OWN_FD = 10, /* our pipe ends lie above all targets, so that dup2 never overwrites one */
    FILES_MAX = 1024,
    ENVIRONMENT_MAX = 512,
    ARGUMENT_MAX = 16,
    CPU_HARD_SECONDS = 5, /* SIGXCPU first; SIGKILL this much later */
};

static const int64_t default_memory_bytes = 4LL << 30;
static const int64_t default_file_bytes = 64LL << 30;

/* A stage gets these variables and no other: whatever secret stands in the supervisor's
 * environment, nobody has to think of striking it out. A name that ends in '*' is a prefix. */
static const struct {
    const char *name;
    unsigned needs; /* 0: every stage */
} inherited[] = {
    {"PATH", 0},
    {"HOME", 0},
    {"LANG", 0},
    {"LC_*", 0},
    {"TZ", 0},
    {"LD_LIBRARY_PATH", 0},
    {"LD_PRELOAD", 0},
    {"FAKETIME*", 0},
    {"TESSDATA_PREFIX", 0},
    {"LOG_LEVEL", 0},
    {"CORTANA_*", 0},
    {"ASAN_OPTIONS", 0},
    {"LSAN_OPTIONS", 0},
    {"UBSAN_OPTIONS", 0},
    {"STORE_URL", CV_STAGE_NEEDS_STORE | CV_STAGE_RUNS_PROGRAMS},
    {"http_proxy", CV_STAGE_NEEDS_STORE | CV_STAGE_RUNS_PROGRAMS},
    {"HTTPS_PROXY", CV_STAGE_NEEDS_STORE | CV_STAGE_RUNS_PROGRAMS},
    {"https_proxy", CV_STAGE_NEEDS_STORE | CV_STAGE_RUNS_PROGRAMS},
    {"NO_PROXY", CV_STAGE_NEEDS_STORE | CV_STAGE_RUNS_PROGRAMS},
    {"no_proxy", CV_STAGE_NEEDS_STORE | CV_STAGE_RUNS_PROGRAMS},
    {"S3_*", CV_STAGE_NEEDS_STORE | CV_STAGE_RUNS_PROGRAMS},
    {"AWS_*", CV_STAGE_NEEDS_STORE | CV_STAGE_RUNS_PROGRAMS},
    {"COMMAND_*", CV_STAGE_RUNS_PROGRAMS},
    {"DATABASE_URL", CV_STAGE_NEEDS_DATABASE},
    {"PG*", CV_STAGE_NEEDS_DATABASE},
    {"EMBED_*", CV_STAGE_NEEDS_EMBEDDER},
};

struct pipes {
    int input[2];
    int output[2];
    int error[2];
    int progress[2];
};

/* Everything the child needs is made before fork: after it, with threads around, only
 * async-signal-safe calls are allowed. */
struct plan {
    char *arguments[ARGUMENT_MAX];
    char *environment[ENVIRONMENT_MAX];
    size_t environment_count;
    struct {
        int resource;
        struct rlimit limit;
    } limits[6];
    size_t limit_count;
    pid_t parent;
    sigset_t no_signals;
    int targets[PROGRESS_TARGET + 1]; /* the pipe end that becomes this descriptor */
};

/* ---- what the child will be given ------------------------------------------------------------ */

int64_t cv_child_memory_limit(const struct cv_stage *stage)
{
    return stage->limits.memory_bytes > 0 ? stage->limits.memory_bytes : default_memory_bytes;
}

static bool is_inherited(const char *entry, unsigned needs)
{
    size_t length = strcspn(entry, "=");
    for (size_t i = 0; i < CV_COUNT(inherited); i++) {
        const char *name = inherited[i].name;
        size_t name_length = strlen(name);
        bool is_prefix = name[name_length - 1] == '*';
        bool matches = is_prefix ? strncmp(entry, name, name_length - 1) == 0
                                 : name_length == length && strncmp(entry, name, length) == 0;
        if (matches && (inherited[i].needs == 0 || (inherited[i].needs & needs))) {
            return true;
        }
    }
    return false;
}

static int add_variable(struct plan *plan, char *entry, struct cv_error *error)
{
    if (plan->environment_count + 1 >= ENVIRONMENT_MAX) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "more than %d environment variables",
                       ENVIRONMENT_MAX);
    }
    plan->environment[plan->environment_count++] = entry;
    return 0;
}

static int plan_environment(struct plan *plan, struct cv_buffer *text,
                            const struct cv_child_params *params, struct cv_error *error)
{
    const struct cv_job *job = params->job;
    /* Entries of our own: NUL-terminated one behind the other, so that one free() does. */
    cv_buffer_printf(text, "OMP_THREAD_LIMIT=1%c", 0);
    cv_buffer_printf(text, "TMPDIR=%s%c", params->scratch, 0);
    cv_buffer_printf(text, "CORTANA_JOB_WORKER=%s%c", params->worker_id, 0);
    cv_buffer_printf(text, "CORTANA_JOB_TYPE=%s%c", params->stage->job_type, 0);
    cv_buffer_printf(text, "CORTANA_JOB_ID=%s%c", job->id, 0);
    cv_buffer_printf(text, "CORTANA_JOB_VIDEO=%s%c", job->video_id, 0);
    cv_buffer_printf(text, "CORTANA_JOB_ATTEMPT=%d%c", job->attempt, 0);
    if (text->failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a stage's environment");
    }
    int r = 0;
    for (size_t at = 0; r == 0 && at < text->length; at += strlen(text->data + at) + 1) {
        r = add_variable(plan, text->data + at, error);
    }
    for (char **entry = environ; r == 0 && *entry; entry++) {
        bool is_ours = strncmp(*entry, "CORTANA_JOB_", 12) == 0;
        if (!is_ours && is_inherited(*entry, params->stage->needs)) {
            r = add_variable(plan, *entry, error);
        }
    }
    return r;
}

static void add_limit(struct plan *plan, int resource, int64_t soft, int64_t hard)
{
    /* Never above what this process may itself have. */
    struct rlimit now;
    rlim_t most = getrlimit(resource, &now) == 0 ? now.rlim_max : RLIM_INFINITY;
    struct rlimit limit = {(rlim_t)soft, (rlim_t)hard};
    limit.rlim_max = limit.rlim_max < most ? limit.rlim_max : most;
    limit.rlim_cur = limit.rlim_cur < limit.rlim_max ? limit.rlim_cur : limit.rlim_max;
    plan->limits[plan->limit_count].resource = resource;
    plan->limits[plan->limit_count].limit = limit;
    plan->limit_count++;
}

static void plan_limits(struct plan *plan, const struct cv_child_params *params, int64_t memory)
{
    const struct cv_stage_limits *wanted = &params->stage->limits;
    int64_t space = cv_child_memory_limit(params->stage) * 2;
    int64_t file = wanted->file_bytes > 0 ? wanted->file_bytes : default_file_bytes;
    int64_t cpu =
        wanted->cpu_seconds > 0
            ? wanted->cpu_seconds
            : (CV_TIME_LIMITS_MAX * params->job->time_limit_ms / 1000 + 1) * params->threads;
    if (!CV_UNDER_SANITIZER) {
        /* RLIMIT_DATA counts private writable memory, which is what an attack or a leak fills;
         * address space also holds file mappings, shared memory and reservations that cost nothing,
         * so its bound is wider, and no container's. */
        add_limit(plan, RLIMIT_DATA, memory, memory);
        add_limit(plan, RLIMIT_AS, space, space);
    }
    add_limit(plan, RLIMIT_CPU, cpu, cpu + CPU_HARD_SECONDS);
    add_limit(plan, RLIMIT_FSIZE, file, file);
    add_limit(plan, RLIMIT_CORE, 0, 0);
    add_limit(plan, RLIMIT_NOFILE, FILES_MAX, FILES_MAX);
}

/* ---- pipes ----------------------------------------------------------------------------------- */

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0) {
            close(pair[i]);
            pair[i] = -1;
        }
    }
}

static inline void pipes_deinit(struct pipes *pipes)
{
    close_pair(pipes->input);
    close_pair(pipes->output);
    close_pair(pipes->error);
    close_pair(pipes->progress);
}
CV_DEFINE_CLEANUP_ADDRESS(struct pipes, pipes_deinit)

static int make_pipe(int pair[2], struct cv_error *error)
{
    int low[2];
    if (pipe2(low, O_CLOEXEC) != 0) {
        return cv_fail_errno(error, errno, "cannot make a pipe to a stage");
    }
    for (int i = 0; i < 2; i++) {
        pair[i] = fcntl(low[i], F_DUPFD_CLOEXEC, FIRST_OWN_FD);
    }
    int error_number = errno;
    close_pair(low);
    if (pair[0] < 0 || pair[1] < 0) {
        return cv_fail_errno(error, error_number, "cannot make a pipe to a stage");
    }
    return 0;
}

static int make_pipes(struct pipes *pipes, struct cv_error *error)
{
    int r = make_pipe(pipes->input, error);
    r = r < 0 ? r : make_pipe(pipes->output, error);
    r = r < 0 ? r : make_pipe(pipes->error, error);
    r = r < 0 ? r : make_pipe(pipes->progress, error);
    if (r < 0) {
        return r;
    }
    /* The stage's end of the progress pipe does not block either: a report is dropped instead. */
    const int non_blocking[] = {pipes->input[1], pipes->output[0], pipes->error[0],
                                pipes->progress[0], pipes->progress[1]};
    for (size_t i = 0; i < CV_COUNT(non_blocking); i++) {
        if (fcntl(non_blocking[i], F_SETFL, O_NONBLOCK) != 0) {
            return cv_fail_errno(error, errno, "cannot set a pipe up");
        }
    }
    return 0;
}

/* ---- fork ------------------------------------------------------------------------------------ */

static void close_from(unsigned first)
{
    if (syscall(SYS_close_range, first, ~0U, 0) != 0) {
        for (int fd = (int)first; fd < 65536; fd++) {
            (void)close(fd);
        }
    }
}

/* When memory runs out on the machine, the kernel shall take the stage, not the supervisor. */
static void prefer_as_victim(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t written = write(fd, "500", 3);
        (void)written;
        (void)close(fd);
    }
}

static _Noreturn void give_up(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
    _exit(CV_EXIT_RETRY);
}

static _Noreturn void become_stage(const struct plan *plan)
{
    (void)setsid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != plan->parent) {
        _exit(CV_EXIT_RETRY); /* the supervisor died before it could take us along */
    }
    for (int target = 0; target <= PROGRESS_TARGET; target++) {
        if (dup2(plan->targets[target], target) < 0) {
            _exit(CV_EXIT_RETRY);
        }
    }
    close_from(PROGRESS_TARGET + 1);
    prefer_as_victim();
    for (size_t i = 0; i < plan->limit_count; i++) {
        if (setrlimit((__rlimit_resource_t)plan->limits[i].resource, &plan->limits[i].limit) != 0) {
            give_up("stage: a resource limit cannot be set\n");
        }
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        give_up("stage: no_new_privs cannot be set\n");
    }
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &plan->no_signals, NULL);
    (void)execve("/proc/self/exe", plan->arguments, plan->environment);
    give_up("stage: /proc/self/exe cannot be executed\n");
}

static int make_plan(struct plan *plan, struct cv_buffer *text, char threads[16],
                     const struct cv_child_params *params, int64_t memory, struct cv_error *error)
{
    static char once[] = "--once";
    static char scratch[] = "--scratch";
    static char threads_option[] = "--threads";
    static char progress[] = "--progress-fd";
    static char progress_target[] = "3";
    (void)snprintf(threads, 16, "%d", params->threads);
    char *const arguments[] = {
        (char *)params->stage->name,
        once,
        scratch,
        (char *)params->scratch,
        threads_option,
        threads,
        progress,
        progress_target,
    };
    (void)memcpy(plan->arguments, arguments, sizeof(arguments));
    plan_limits(plan, params, memory);
    plan->parent = getpid();
    (void)sigemptyset(&plan->no_signals);
    return plan_environment(plan, text, params, error);
}

int cv_child_start(struct cv_child *child, const struct cv_child_params *params,
                   struct cv_error *error)
{
    *child = (struct cv_child)CV_CHILD_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_auto(pipes_deinit) struct pipes pipes = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    struct plan plan = {.limit_count = 0};
    char threads[16];
    struct cv_cgroup group;
    cv_cgroup_read(CV_CGROUP_ROOT, CV_CGROUP_MEMBERSHIP, &group);
    child->memory_bytes =
        cv_cgroup_stage_memory(&group, cv_child_memory_limit(params->stage), params->slots);
    int r = make_plan(&plan, &text, threads, params, child->memory_bytes, error);
    r = r < 0 ? r : make_pipes(&pipes, error);
    if (r < 0) {
        return r;
    }
    cv_auto_free char *payload = json_dumps(params->job->payload, JSON_COMPACT);
    if (!payload) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a payload");
    }
    plan.targets[STDIN_FILENO] = pipes.input[0];
    plan.targets[STDOUT_FILENO] = pipes.output[1];
    plan.targets[STDERR_FILENO] = pipes.error[1];
    plan.targets[PROGRESS_TARGET] = pipes.progress[1];
    pid_t pid = fork();
    if (pid < 0) {
        return cv_fail_errno(error, errno, "cannot start a stage process");
    }
    if (pid == 0) {
        become_stage(&plan);
    }
    child->pid = pid;
    child->input_fd = cv_take_fd(&pipes.input[1]);
    child->output_fd = cv_take_fd(&pipes.output[0]);
    child->error_fd = cv_take_fd(&pipes.error[0]);
    child->progress_fd = cv_take_fd(&pipes.progress[0]);
    child->payload_length = strlen(payload);
    child->payload = cv_take(payload);
    return 0;
}

void cv_child_signal(const struct cv_child *child, int number)
{
    if (child->pid > 0 && !child->exited) {
        /* Its own group, from setsid; in the instant before that there is only the process. */
        if (kill(-child->pid, number) != 0) {
            (void)kill(child->pid, number);
        }
    }
}

bool cv_child_reap(struct cv_child *child)
{
    if (child->exited) {
        return true;
    }
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
        return false;
    }
    /* Until it is reaped its number, and so its group's, belongs to nobody else. */
    (void)kill(-child->pid, SIGKILL);
    if (wait4(child->pid, &child->status, 0, &child->usage) != child->pid) {
        return false;
    }
    child->exited = true;
    child->exited_at = cv_monotonic_ms();
    return true;
}

void cv_child_hang_up(struct cv_child *child)
{
    int *const fds[] = {&child->input_fd, &child->output_fd, &child->error_fd, &child->progress_fd};
    for (size_t i = 0; i < CV_COUNT(fds); i++) {
        if (*fds[i] >= 0) {
            close(cv_take_fd(fds[i]));
        }
    }
}

void cv_child_deinit(struct cv_child *child)
{
    if (child->pid > 0 && !child->exited) {
        cv_child_signal(child, SIGKILL);
        (void)waitpid(child->pid, NULL, 0);
    }
    cv_child_hang_up(child);
    free(child->payload);
    free(child->error_lines.data);
    free(child->progress_lines.data);
    cv_buffer_deinit(&child->output);
    cv_buffer_deinit(&child->error_tail);
    *child = (struct cv_child)CV_CHILD_INIT;
}
