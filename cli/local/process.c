#include "cli/local/process.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    OUTPUT_MAX = 64 << 10, /* bytes kept of a program's output */
    POLL_MS = 20,          /* if the kernel has no pidfd_open */
    AWAIT_MS = 100,        /* between two looks at a process that is awaited */
    STOP_MS = 3000,        /* until a process that was told to end is killed */
};

static bool is_database_variable(const char *entry)
{
    return strncmp(entry, "PG", 2) == 0 || strncmp(entry, "DATABASE_URL=", 13) == 0;
}

/* Sets the environment in the child, before exec. */
static bool set_environment(const struct cli_process_params *params)
{
    for (char **entry = environ; params->without_pg && *entry;) {
        char name[256];
        size_t length = strcspn(*entry, "=");
        if (is_database_variable(*entry) && length < sizeof(name)) {
            memcpy(name, *entry, length);
            name[length] = '\0';
            if (unsetenv(name)) {
                return false;
            }
            entry = environ;
        } else {
            entry++;
        }
    }
    for (size_t i = 0; params->environment && params->environment[i]; i++) {
        if (putenv((char *)params->environment[i])) {
            return false;
        }
    }
    return true;
}

static bool become(const struct cli_process_params *params)
{
    return params->user == 0 ||
           (setgroups(0, NULL) == 0 && setgid(params->group) == 0 && setuid(params->user) == 0);
}

static _Noreturn void run_child(const struct cli_process_params *params, pid_t parent)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < CV_COUNT(numbers); i++) {
        (void)sigaction(numbers[i], &action, NULL);
    }
    (void)setsid();
    int input = params->input ? params->input : open("/dev/null", O_RDONLY);
    int errors = params->errors ? params->errors : params->output;
    /* Relative paths of the command line and of settings keep their meaning. Another user may not
     * be allowed to enter this folder. */
    bool may_stay =
        params->directory ? chdir(params->directory) == 0 : params->user == 0 || chdir("/") == 0;
    if (input < 0 || dup2(input, 0) < 0 || dup2(params->output, 1) < 0 || dup2(errors, 2) < 0 ||
        !may_stay || !set_environment(params) || !become(params)) {
        _exit(127);
    }
    /* After the change of user, which would clear it. */
    if (params->dies_with_parent &&
        (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) || getppid() != parent)) {
        _exit(127);
    }
    (void)execv(params->argv[0], (char *const *)params->argv);
    (void)dprintf(2, "%s: %s\n", params->argv[0], strerror(errno));
    _exit(127);
}

int cli_process_start(const struct cli_process_params *params, pid_t *ret_pid,
                      struct cv_error *error)
{
    (void)fflush(NULL);
    pid_t parent = getpid();
    pid_t pid = fork();
    CV_TRY_ERRNO(pid >= 0, error, "start %s", params->argv[0]);
    if (pid == 0) {
        run_child(params, parent);
    }
    *ret_pid = pid;
    return 0;
}

bool cli_process_has_ended(pid_t pid, int *ret_status)
{
    int status = 0;
    pid_t reaped = waitpid(pid, &status, WNOHANG);
    if (reaped == pid) {
        if (ret_status) {
            *ret_status = status;
        }
        return true;
    }
    return reaped < 0 && kill(pid, 0) && errno == ESRCH;
}

bool cli_process_wait(pid_t pid, int64_t timeout_ms)
{
    int64_t end = cv_monotonic_ms() + timeout_ms;
    cv_auto_fd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    for (;;) {
        if (cli_process_has_ended(pid, NULL)) {
            return true;
        }
        int64_t left = end - cv_monotonic_ms();
        if (left <= 0) {
            return false;
        }
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        (void)poll(&wait, fd >= 0 ? 1 : 0, fd >= 0 || left < POLL_MS ? (int)left : POLL_MS);
    }
}

int cli_process_await(const struct cli_process_params *params, struct cv_cancel *cancel,
                      int *ret_status, struct cv_error *error)
{
    pid_t pid = 0;

    CV_TRY(cli_process_start(params, &pid, error));
    while (!cli_process_has_ended(pid, ret_status)) {
        if (cv_cancel_wait(cancel, AWAIT_MS)) {
            (void)kill(pid, SIGTERM);
            if (!cli_process_wait(pid, STOP_MS)) {
                (void)kill(pid, SIGKILL);
                (void)cli_process_wait(pid, STOP_MS);
            }
            return cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
    return 0;
}

const char *cli_process_reason(char *text, const char *no_reason)
{
    static const char *const marks[] = {"error: ", "ERROR: ", "FATAL: ", "PANIC: "};
    char *rest = text;
    char *last = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        for (size_t i = 0; i < CV_COUNT(marks); i++) {
            char *mark = strstr(line, marks[i]);
            mark = mark ? mark + strlen(marks[i]) : NULL;
            mark = mark ? mark + strspn(mark, " ") : NULL;
            if (mark && (!no_reason || strncmp(mark, no_reason, strlen(no_reason)) != 0)) {
                return mark;
            }
        }
        last = line[0] ? line : last;
    }
    return last;
}

int cli_process_fail(const char *reason, struct cv_error *error, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    bool is_full = strstr(reason, strerror(ENOSPC)) || strstr(reason, strerror(EDQUOT));
    return cv_fail(error, is_full ? CV_ERROR_DISK_FULL : CV_ERROR_CONFIGURATION, "%s: %s", what,
                   reason);
}

int cli_process_run(const struct cli_process_params *params, struct cv_error *error)
{
    int ends[2];
    CV_TRY_ERRNO(pipe2(ends, O_CLOEXEC) == 0, error, "start %s", params->argv[0]);
    cv_auto_fd int read_end = ends[0];
    cv_auto_fd int write_end = ends[1];
    struct cli_process_params own = *params;
    own.output = write_end;
    pid_t pid = 0;
    CV_TRY(cli_process_start(&own, &pid, error));
    close(cv_take_fd(&write_end));
    cv_auto(cv_buffer_deinit) struct cv_buffer output = CV_BUFFER_INIT;
    cv_buffer_text(&output, "");
    char part[4096];
    for (ssize_t length; (length = read(read_end, part, sizeof(part))) != 0;) {
        if (length > 0 && output.length < OUTPUT_MAX) {
            cv_buffer_append(&output, part, (size_t)length);
        } else if (length < 0 && errno != EINTR) {
            break;
        }
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return cli_process_fail(
            output.data && !output.failed ? cli_process_reason(output.data, NULL) : "", error,
            "%s failed", params->argv[0]);
    }
    return 0;
}

bool cli_find_program(const char *name, char path[PATH_MAX])
{
    const char *places = cv_env("PATH", "/usr/local/bin:/usr/bin:/bin");
    for (const char *place = places; *place; place += strcspn(place, ":"), place += *place == ':') {
        int length = (int)strcspn(place, ":");
        if (snprintf(path, PATH_MAX, "%.*s/%s", length, place, name) < PATH_MAX && length > 0 &&
            path[0] == '/' && access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}
