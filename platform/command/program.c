#include "platform/command/program.h"

#include "common/store/store.h"

#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- files of a command ---------------------------------------------------------------------- */

enum {
    FILES_MAX = 1000,
    COPY_BYTES = 1 << 20,
};

static const char inputs_folder[] = "inputs";
static const char outputs_folder[] = "outputs";

void command_files_deinit(struct command_files *files)
{
    free(files->folder);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Creates the parent folders of the file `path`; the first `start` characters of the path exist
 * already. */
static int make_folders(char *path, size_t start, struct cv_error *error)
{
    for (char *slash = strchr(path + start, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed) {
            return cv_fail_errno(error, errno, "cannot make a folder for %s", path);
        }
    }
    return 0;
}

static int fetch_file(struct cv_stage_context *context, const char *key, const char *path,
                      struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    cv_auto_free char *data = malloc(COPY_BYTES);
    CV_TRY(cv_stage_open_input(context, key, &reader, error));
    cv_auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (!data || fd < 0) {
        return cv_fail_errno(error, data ? errno : ENOMEM, "cannot write %s", path);
    }
    struct cv_byte_source source = cv_store_reader_source(reader);
    size_t got = 1;
    for (int64_t offset = 0; got > 0; offset += (int64_t)got) {
        CV_TRY(source.read(source.opaque, offset, data, COPY_BYTES, &got, error));
        CV_TRY_ERRNO(cv_write_all(fd, data, got) == 0, error, "cannot write %s", path);
    }
    return 0;
}

/* Fetches the files whose keys begin with `folder` into inputs/{input}/. */
static int fetch_input(struct cv_stage_context *context, const char *input, const char *folder,
                       struct cv_error *error)
{
    cv_auto_free char *continuation = NULL;
    const char *scratch = cv_stage_scratch(context);
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list page = {.count = 0};
        const struct cv_listing listing = {.prefix = folder, .continuation = continuation};
        CV_TRY(cv_store_list(cv_stage_store(context), &listing, &page, error));
        for (size_t i = 0; i < page.count; i++) {
            cv_auto_free char *path = NULL;
            const char *key = page.entries[i].key;
            CV_TRY(cv_format(&path, error, "%s/%s/%s/%s", scratch, inputs_folder, input,
                             key + strlen(folder)));
            CV_TRY(make_folders(path, strlen(scratch) + 1, error));
            CV_TRY(fetch_file(context, key, path, error));
        }
        free(continuation);
        continuation = cv_take(page.continuation);
    } while (continuation);
    return 0;
}

int command_files_fetch(struct cv_stage_context *context, const char *job_id,
                        struct command_files *ret_files, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto_free char *path = NULL;
    *ret_files = (struct command_files){0};
    CV_TRY(cv_format(&path, error, "%s/%s", cv_stage_scratch(context), outputs_folder));
    CV_TRY_ERRNO(mkdir(path, 0777) == 0, error, "cannot make %s", path);
    if (!job_id) {
        return 0;
    }
    CV_TRY(cv_db_run(cv_stage_db(context), &rows, error,
                     "SELECT input, folder FROM command_files($1::uuid)", job_id));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        const char *input = cv_db_text(rows, i, "input");
        const char *folder = cv_db_text(rows, i, "folder");
        if (!input) {
            CV_TRY(cv_format(&ret_files->folder, error, "%s", folder));
            continue;
        }
        CV_TRY(cv_stage_open_store(context, error));
        CV_TRY(fetch_input(context, input, folder, error));
    }
    return 0;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static int keep_entry(struct cv_stage_context *context, const struct command_files *files,
                      const FTSENT *entry, size_t root_length, struct cv_error *error)
{
    cv_auto_free char *key = NULL;
    switch (entry->fts_info) {
    case FTS_D:
    case FTS_DP:
        return 0;
    case FTS_F:
        break;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return cv_fail_errno(error, entry->fts_errno, "cannot read %s", entry->fts_path);
    default:
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "outputs%s is neither a file nor a folder",
                       entry->fts_path + root_length);
    }
    CV_TRY(cv_format(&key, error, "%s%s", files->folder, entry->fts_path + root_length + 1));
    CV_TRY(cv_stage_open_store(context, error));
    const struct cv_new_object object = {.key = key, .path = entry->fts_path};
    return cv_stage_put(context, &object, error);
}

CV_DEFINE_CLEANUP(FTS *, fts_close)

int command_files_keep(struct cv_stage_context *context, const struct command_files *files,
                       struct cv_error *error)
{
    if (!files->folder) {
        return 0;
    }
    cv_auto_free char *root = NULL;
    int result = cv_format(&root, error, "%s/%s", cv_stage_scratch(context), outputs_folder);
    if (result) {
        return result;
    }
    char *const roots[] = {root, NULL};
    cv_auto(fts_close) FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    size_t count = 0;
    errno = 0;
    for (FTSENT *entry; walk && result == 0 && (entry = fts_read(walk)); errno = 0) {
        if (entry->fts_info == FTS_F && ++count > FILES_MAX) {
            return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                           "the command has written more than %d files to outputs/", FILES_MAX);
        }
        result = entry->fts_level == FTS_ROOTLEVEL && entry->fts_errno == ENOENT
                     ? 0 /* the program has removed the folder */
                     : keep_entry(context, files, entry, strlen(root), error);
    }
    if (result == 0 && errno != 0) {
        return cv_fail_errno(error, errno, "cannot read %s", root);
    }
    return result;
}

/* ---- its process ----------------------------------------------------------------------------- */

enum {
    STOP_MS = 3000,
    LOOK_MS = 50,       /* between two checks whether the program has ended */
    LEFTOVER_MS = 1000, /* how long its children may keep its output open after its end */
    CANNOT_START = 127,
};

struct program {
    pid_t pid;
    int output;  /* read end of its standard output; -1 at its end */
    int failure; /* read end of a pipe that execve closes, or brings its errno; -1 when read */
};

/* Runs in the child after fork, so only async-signal-safe calls are allowed. */
static _Noreturn void become(const struct program_params *params, pid_t parent, int output,
                             int failure)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL);
    }
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool good = prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent &&
                input >= 0 && dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
                chdir(params->directory) == 0;
    if (good) {
        int keep = STDERR_FILENO + 1;
        good = dup2(failure, keep) >= 0 && fcntl(keep, F_SETFD, FD_CLOEXEC) == 0 &&
               close_range((unsigned)keep + 1, ~0U, 0) == 0;
        failure = good ? keep : failure;
    }
    if (good) {
        (void)execve(params->program, params->argv, params->environment);
    }
    int number = errno ? errno : ESRCH;
    ssize_t written = write(failure, &number, sizeof(number));
    (void)written;
    _exit(CANNOT_START);
}

static int start(const struct program_params *params, struct program *ret_program,
                 struct cv_error *error)
{
    int output[2];
    int failure[2];
    CV_TRY_ERRNO(pipe2(output, O_CLOEXEC) == 0, error, "cannot make a pipe");
    cv_auto_fd int output_read = output[0];
    cv_auto_fd int output_write = output[1];
    CV_TRY_ERRNO(pipe2(failure, O_CLOEXEC) == 0, error, "cannot make a pipe");
    cv_auto_fd int failure_read = failure[0];
    cv_auto_fd int failure_write = failure[1];
    pid_t parent = getpid();
    pid_t pid = fork();
    CV_TRY_ERRNO(pid >= 0, error, "cannot start a process");
    if (pid == 0) {
        become(params, parent, output_write, failure_write);
    }
    *ret_program = (struct program){
        .pid = pid, .output = cv_take_fd(&output_read), .failure = cv_take_fd(&failure_read)};
    return 0;
}

static void close_pipes(struct program *program)
{
    if (program->output >= 0) {
        (void)close(program->output);
    }
    if (program->failure >= 0) {
        (void)close(program->failure);
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct program, close_pipes)

static int read_output(const struct program_params *params, struct program *program,
                       struct cv_buffer *output, struct cv_error *error)
{
    char chunk[16384];
    ssize_t count = read(program->output, chunk, sizeof(chunk));
    if (count < 0 && errno != EINTR) {
        return cv_fail_errno(error, errno, "cannot read what the program prints");
    }
    if (count == 0) {
        (void)close(program->output);
        program->output = -1;
    }
    if (count > 0 && output->length + (size_t)count > params->output_max) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the program prints more than %zu bytes",
                       params->output_max);
    }
    if (count > 0) {
        cv_buffer_append(output, chunk, (size_t)count);
    }
    return output->failed ? cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for output") : 0;
}

/* Reads the failure pipe: it is closed when the program runs, or has the errno of the failure. */
static int read_failure(const struct program_params *params, struct program *program,
                        struct cv_error *error)
{
    int number = 0;
    ssize_t count = read(program->failure, &number, sizeof(number));
    (void)close(program->failure);
    program->failure = -1;
    return count == (ssize_t)sizeof(number)
               ? cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "cannot run %s: %s", params->program,
                         strerror(number))
               : 0;
}

static bool has_ended(const struct program *program)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)program->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

static void ask_to_stop(const struct program *program)
{
    (void)kill(program->pid, SIGTERM);
    int64_t end = cv_monotonic_ms() + STOP_MS;
    while (cv_monotonic_ms() < end && !has_ended(program)) {
        (void)poll(NULL, 0, LOOK_MS);
    }
}

/* Collects the program's output until the program has ended, or has closed its output and is about
 * to end. */
static int attend(const struct program_params *params, struct program *program,
                  struct cv_buffer *output, struct cv_error *error)
{
    int64_t end = cv_monotonic_ms() + params->time_limit_ms;
    while ((program->output >= 0 || program->failure >= 0)) {
        struct pollfd fds[] = {{.fd = program->output, .events = POLLIN},
                               {.fd = program->failure, .events = POLLIN},
                               {.fd = cv_cancel_fd(params->cancel), .events = POLLIN}};
        int64_t left = end - cv_monotonic_ms();
        int ready =
            left > 0 ? poll(fds, CV_COUNT(fds), left < LEFTOVER_MS ? (int)left : LEFTOVER_MS) : 0;
        if (ready < 0 && errno != EINTR) {
            return cv_fail_errno(error, errno, "cannot wait for the program");
        }
        if (ready == 0 && left > 0 && has_ended(program)) {
            break;
        }
        if (left <= 0 || fds[2].revents) {
            ask_to_stop(program);
            return left <= 0 ? cv_fail(error, CV_ERROR_TIMEOUT, "%s took longer than %lld s",
                                       params->program, (long long)params->time_limit_ms / 1000)
                             : cv_fail(error, CV_ERROR_CANCELED, "asked to stop");
        }
        if (fds[1].revents) {
            CV_TRY(read_failure(params, program, error));
        }
        if (fds[0].revents) {
            CV_TRY(read_output(params, program, output, error));
        }
    }
    return 0;
}

/* Waits until the program ends; kills it if something went wrong. */
static int reap(const struct program *program, bool is_good, struct program_end *end,
                struct cv_error *error)
{
    if (!is_good) {
        (void)kill(program->pid, SIGKILL);
    }
    while (waitpid(program->pid, &end->status, 0) < 0) {
        CV_TRY_ERRNO(errno == EINTR, error, "cannot wait for the program");
    }
    end->has_status = true;
    return 0;
}

int program_run(const struct program_params *params, struct cv_buffer *output,
                struct program_end *end, struct cv_error *error)
{
    cv_auto(close_pipes) struct program program = {.output = -1, .failure = -1};
    struct cv_error reason;
    *end = (struct program_end){.pid = 0};
    CV_TRY(start(params, &program, error));
    end->pid = program.pid;
    int result = attend(params, &program, output, error);
    int reaped = reap(&program, result == 0, end, &reason);
    if (result == 0 && reaped != 0) {
        *error = reason;
    }
    return result ? result : reaped;
}
