/* A stage that does what its payload's "do" says: the ways in which real stages end, well or badly,
 * and a probe of what the sandbox lets through. With -DTABLES=1 it is a stage of tables alone. */
#include "common/worker/worker.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>

#ifndef TABLES
#define TABLES 0
#endif

typedef int action(struct cv_stage_context *context, const json_t *payload, json_t *result,
                   struct cv_error *error);

static volatile bool for_ever = true;

static const char *text_of(const json_t *payload, const char *key, const char *fallback)
{
    const char *text = json_string_value(json_object_get(payload, key));
    return text ? text : fallback;
}

static int64_t number_of(const json_t *payload, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(payload, key);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static void set(json_t *result, const char *key, const char *text)
{
    if (json_object_set_new(result, key, text ? json_string(text) : json_null()) != 0) {
        abort();
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static int succeed(struct cv_stage_context *context, const json_t *payload, json_t *result,
                   struct cv_error *error)
{
    (void)context;
    (void)error;
    return json_object_update_missing(result, (json_t *)payload);
}

static int fail(struct cv_stage_context *context, const json_t *payload, json_t *result,
                struct cv_error *error)
{
    (void)context;
    (void)result;
    enum cv_error_type type = cv_error_type_from_name(text_of(payload, "type", "InternalError"));
    return cv_fail(error, type, "%s", text_of(payload, "message", "as told"));
}

static int crash(struct cv_stage_context *context, const json_t *payload, json_t *result,
                 struct cv_error *error)
{
    (void)context;
    (void)result;
    int number = (int)number_of(payload, "signal", SIGSEGV);
    (void)fprintf(stderr, "last words before signal %d\n", number);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
    return cv_fail(error, CV_ERROR_INTERNAL, "survived signal %d", number);
}

static int leave(struct cv_stage_context *context, const json_t *payload, json_t *result,
                 struct cv_error *error)
{
    (void)context;
    (void)result;
    (void)error;
    /* The library keeps the real standard output aside, behind the descriptors of the broker. */
    const char *text = text_of(payload, "text", "");
    for (int fd = 6; fd < 12; fd++) {
        ssize_t written = write(fd, text, strlen(text));
        (void)written;
    }
    _exit((int)number_of(payload, "code", 0));
}

static int flood(struct cv_stage_context *context, const json_t *payload, json_t *result,
                 struct cv_error *error)
{
    (void)context;
    (void)payload;
    (void)result;
    (void)error;
    static char chunk[1 << 16];
    (void)memset(chunk, ' ', sizeof(chunk));
    while (for_ever) {
        for (int fd = 6; fd < 12; fd++) {
            ssize_t written = write(fd, chunk, sizeof(chunk));
            (void)written;
        }
    }
    return 0;
}

static int warn(struct cv_stage_context *context, const json_t *payload, json_t *result,
                struct cv_error *error)
{
    cv_log(CV_LOG_INFO, "an information is not an event");
    for (int64_t i = 0; i < number_of(payload, "count", 1); i++) {
        cv_log(i % 2 ? CV_LOG_ERROR : CV_LOG_WARN, "frame %lld is broken, password=hunter2",
               (long long)i);
    }
    return succeed(context, payload, result, error);
}

static int chatter(struct cv_stage_context *context, const json_t *payload, json_t *result,
                   struct cv_error *error)
{
    int64_t lines = number_of(payload, "lines", 1);
    const char *line = text_of(payload, "line", "");
    if (line[0]) {
        (void)fprintf(stderr, "%s\n", line);
    }
    for (int64_t i = 0; i < lines; i++) {
        (void)fprintf(stderr, "chatter %lld\n", (long long)i);
    }
    return succeed(context, payload, result, error);
}

/* ---- time ------------------------------------------------------------------------------------ */

static int hang(struct cv_stage_context *context, const json_t *payload, json_t *result,
                struct cv_error *error)
{
    (void)payload;
    (void)result;
    (void)error;
    cv_stage_progress(context, 0.5, "hang");
    while (for_ever) {
        (void)pause(); /* SIGTERM only ends one pause */
    }
    return 0;
}

static int spin(struct cv_stage_context *context, const json_t *payload, json_t *result,
                struct cv_error *error)
{
    (void)context;
    (void)payload;
    (void)result;
    (void)error;
    while (for_ever) {
    }
    return 0;
}

/* "ms" milliseconds, in 20 steps with progress; stops when it is asked to, unless "stubborn". */
static int work(struct cv_stage_context *context, const json_t *payload, json_t *result,
                struct cv_error *error)
{
    enum { STEPS = 20 };
    struct cv_cancel *cancel = cv_stage_cancel(context);
    bool stubborn = json_is_true(json_object_get(payload, "stubborn"));
    int step_ms = (int)(number_of(payload, "ms", 100) / STEPS);
    for (int i = 0; i < STEPS; i++) {
        cv_stage_progress(context, (double)i / STEPS, "work");
        struct pollfd wait = {.fd = stubborn ? -1 : cv_cancel_fd(cancel), .events = POLLIN};
        int64_t until = cv_monotonic_ms() + step_ms;
        for (int64_t left = step_ms; left > 0; left = until - cv_monotonic_ms()) {
            if (poll(&wait, 1, (int)left) > 0) {
                return cv_fail(error, CV_ERROR_CANCELED, "asked to stop at step %d", i);
            }
        }
    }
    return succeed(context, payload, result, error);
}

/* ---- memory and files ------------------------------------------------------------------------ */

static int eat(struct cv_stage_context *context, const json_t *payload, json_t *result,
               struct cv_error *error)
{
    (void)context;
    (void)result;
    enum { BITE = 1 << 20 };
    for (size_t eaten = 0;; eaten += BITE) {
        char *bite = malloc(BITE);
        if (!bite && json_is_true(json_object_get(payload, "abort"))) {
            abort();
        }
        if (!bite) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory after %zu MiB", eaten / BITE);
        }
        (void)memset(bite, (int)(eaten / BITE) | 1, BITE);
    }
}

static int fill(struct cv_stage_context *context, const json_t *payload, json_t *result,
                struct cv_error *error)
{
    (void)result;
    static char chunk[1 << 16];
    (void)memset(chunk, 'x', sizeof(chunk));
    cv_auto_free char *path = NULL;
    int r = cv_format(&path, error, "%s/filler", cv_stage_scratch(context));
    if (r < 0) {
        return r;
    }
    cv_auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return cv_fail_errno(error, errno, "cannot open %s", path);
    }
    int64_t size = number_of(payload, "bytes", INT64_MAX);
    for (int64_t written = 0; written < size;) {
        ssize_t count = write(fd, chunk, sizeof(chunk));
        if (count < 0) {
            return cv_fail_errno(error, errno, "cannot write scratch");
        }
        written += count;
    }
    const struct cv_new_object object = {.key = text_of(payload, "key", "test/filler"),
                                         .path = path};
    return cv_stage_put(context, &object, error);
}

/* Leaves files in scratch: so many ("files"), of so many bytes; "hide" removes each and keeps it
 * open, "store" stores each, which is as long as it says and empty on the disk, and removes it. */
static int litter(struct cv_stage_context *context, const json_t *payload, json_t *result,
                  struct cv_error *error)
{
    static const char chunk[1 << 20];
    int64_t files = number_of(payload, "files", 0), bytes = number_of(payload, "bytes", 0);
    for (int64_t i = 0; i < files; i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/%lld", cv_stage_scratch(context), (long long)i);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        bool stores = json_is_true(json_object_get(payload, "store"));
        if (fd < 0 || (stores ? ftruncate(fd, bytes) != 0
                              : write(fd, chunk, (size_t)bytes) != (ssize_t)bytes)) {
            return cv_fail_errno(error, errno, "cannot write %s", path);
        }
        if (stores) {
            int r = cv_stage_put(context, &(struct cv_new_object){.key = "out/same", .path = path},
                                 error);
            close(fd);
            if (r < 0 || unlink(path) != 0) {
                return r < 0 ? r : cv_fail_errno(error, errno, "cannot remove %s", path);
            }
        } else if (!json_is_true(json_object_get(payload, "hide"))) {
            close(fd);
        } else if (unlink(path) != 0) {
            return cv_fail_errno(error, errno, "cannot remove %s", path);
        }
    }
    return work(context, payload, result, error);
}

static int put(struct cv_stage_context *context, const json_t *payload, json_t *result,
               struct cv_error *error)
{
    const char *key = NULL;
    int r = cv_payload_object_key(payload, "key", &key, error);
    const char *text = text_of(payload, "text", "");
    const struct cv_new_object object = {.key = key, .data = text, .size = strlen(text)};
    r = r < 0 ? r : cv_stage_put(context, &object, error);
    return r < 0 ? r : work(context, payload, result, error);
}

static int copy(struct cv_stage_context *context, const json_t *payload, json_t *result,
                struct cv_error *error)
{
    const char *key = NULL;
    int r = cv_payload_object_key(payload, "key", &key, error);
    if (r < 0) {
        return r;
    }
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    r = cv_stage_open_input(context, key, &reader, error);
    if (r < 0) {
        return r;
    }
    struct cv_byte_source source = cv_store_reader_source(reader);
    char data[4096];
    size_t length = 0;
    r = source.read(source.opaque, 0, data, sizeof(data) - 1, &length, error);
    if (r < 0) {
        return r;
    }
    data[length] = '\0';
    set(result, "text", data);
    return 0;
}

/* Until an object is there: a test puts it when the stage is to end. */
static int await(struct cv_stage_context *context, const json_t *payload, json_t *result,
                 struct cv_error *error)
{
    enum { STEP_MS = 20 };
    int r;
    while ((r = copy(context, payload, result, error)) < 0 &&
           error->type == CV_ERROR_OBJECT_NOT_FOUND) {
        if (poll(&(struct pollfd){.fd = cv_cancel_fd(cv_stage_cancel(context)), .events = POLLIN},
                 1, STEP_MS) > 0) {
            return cv_fail(error, CV_ERROR_CANCELED, "asked to stop");
        }
    }
    return r;
}

/* ---- the sandbox ----------------------------------------------------------------------------- */

static const char *outcome(bool worked)
{
    return worked ? "worked" : strerrorname_np(errno);
}

static const char *try_open(const char *path, int flags)
{
    cv_auto_fd int fd = open(path, flags | O_CLOEXEC, 0600);
    char byte;
    return outcome(fd >= 0 && ((flags & O_CREAT) || read(fd, &byte, 1) == 1));
}

static const char *try_fork(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    const char *text = outcome(pid > 0);
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0);
    }
    return text;
}

static const char *try_exec(void)
{
    static char path[] = "/bin/true";
    char *const arguments[] = {path, NULL};
    (void)execve(path, arguments, environ);
    return outcome(false);
}

static int probe(struct cv_stage_context *context, const json_t *payload, json_t *result,
                 struct cv_error *error)
{
    (void)error;
    json_t *names = json_array();
    for (char **entry = environ; *entry; entry++) {
        (void)json_array_append_new(names, json_stringn(*entry, strcspn(*entry, "=")));
    }
    (void)json_object_set_new(result, "environment", names);
    set(result, "database_url", getenv("DATABASE_URL"));
    set(result, "scratch", cv_stage_scratch(context));

    char path[4096];
    (void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)getppid());
    set(result, "parent_environment", try_open(path, O_RDONLY));
    (void)snprintf(path, sizeof(path), "%s/inside", cv_stage_scratch(context));
    set(result, "write_scratch", try_open(path, O_WRONLY | O_CREAT));
    const char *outside = text_of(payload, "outside", "/nowhere");
    set(result, "write_outside", try_open(outside, O_WRONLY | O_CREAT));
    set(result, "read_outside", try_open(text_of(payload, "secret", "/nowhere"), O_RDONLY));
    set(result, "read_system", try_open("/etc/ld.so.cache", O_RDONLY));
    set(result, "write_null", try_open("/dev/null", O_WRONLY));

    cv_auto_fd int inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set(result, "socket_inet", outcome(inet >= 0));
    cv_auto_fd int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set(result, "socket_unix", outcome(local >= 0));
    set(result, "kill_parent", outcome(kill(getppid(), 0) == 0));
    set(result, "ptrace_parent", outcome(ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) == 0));
    set(result, "fork", try_fork());
    set(result, "exec", try_exec());
    int open_files = 0;
    for (int fd = 0; fd < 1024; fd++) {
        open_files += fcntl(fd, F_GETFD) >= 0;
    }
    (void)json_object_set_new(result, "open_files", json_integer(open_files));
    return 0;
}

static int environment(struct cv_stage_context *context, const json_t *payload, json_t *result,
                       struct cv_error *error)
{
    (void)context;
    (void)error;
    const char *name = text_of(payload, "name", "");
    set(result, "value", getenv(name));
    return 0;
}

/* A stage without a database tries to get into one by its socket: "worked", or what libpq said. */
static int login(struct cv_stage_context *context, const json_t *payload, json_t *result,
                 struct cv_error *error)
{
    (void)context;
    (void)error;
    const char *const keywords[] = {"host", "user", "dbname", "connect_timeout", NULL};
    const char *const values[] = {text_of(payload, "socket", ""), text_of(payload, "user", ""),
                                  text_of(payload, "database", "postgres"), "5", NULL};
    PGconn *connection = PQconnectdbParams(keywords, values, 0);
    set(result, "login",
        PQstatus(connection) == CONNECTION_OK ? "worked" : PQerrorMessage(connection));
    PQfinish(connection);
    set(result, "read_password", try_open(text_of(payload, "password", "/nowhere"), O_RDONLY));
    return 0;
}

static int query(struct cv_stage_context *context, const json_t *payload, json_t *result,
                 struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int r = cv_db_run(cv_stage_db(context), &rows, error, "SELECT current_database() AS name");
    if (r < 0) {
        return r;
    }
    set(result, "database", cv_db_text(rows, 0, "name"));
    return work(context, payload, result, error);
}

/* ---- the stage ------------------------------------------------------------------------------- */

/* An installation that breaks while a worker runs: CORTANA_TEST_BROKEN names a file that says so. */
static int check(struct cv_error *error)
{
    const char *path = cv_env("CORTANA_TEST_BROKEN", "");
    return path[0] && access(path, F_OK) == 0
               ? cv_fail(error, CV_ERROR_CONFIGURATION, "the model is gone")
               : 0;
}

static int find_broken(struct cv_stage_context *context, const json_t *payload, json_t *result,
                       struct cv_error *error)
{
    int r = check(error);
    return r < 0 ? r : succeed(context, payload, result, error);
}

static const struct {
    const char *name;
    action *act;
} actions[] = {
    {"succeed", succeed}, {"fail", fail},         {"crash", crash},
    {"leave", leave},     {"warn", warn},         {"chatter", chatter},
    {"flood", flood},     {"hang", hang},         {"spin", spin},
    {"work", work},       {"eat", eat},           {"fill", fill},
    {"litter", litter},   {"put", put},           {"copy", copy},
    {"probe", probe},     {"query", query},       {"environment", environment},
    {"login", login},     {"check", find_broken}, {"await", await},
};

static int run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
               struct cv_error *error)
{
    const char *name = text_of(payload, "do", "");
    for (size_t i = 0; i < CV_COUNT(actions); i++) {
        if (strcmp(actions[i].name, name) == 0) {
            json_t *result = json_object();
            int r = actions[i].act(context, payload, result, error);
            if (r < 0) {
                json_decref(result);
                return r;
            }
            *ret_result = result;
            return 0;
        }
    }
    return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload: \"do\" names no action");
}

/* The tests say in SQL what a commit does. */
static int commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                  struct cv_error *error)
{
    char attempt[16];
    (void)snprintf(attempt, sizeof(attempt), "%d", job->attempt);
    cv_auto_free char *text = json_dumps(result, JSON_COMPACT);
    if (!text) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a result");
    }
    return cv_db_run(db, NULL, error, "SELECT test_commit($1::uuid, $2::int, $3::jsonb)", job->id,
                     attempt, text);
}

/* Everything: what it does is for its payload to say. */
static const struct cv_grant grants[] = {{CV_GRANT_READ | CV_GRANT_WRITE | CV_GRANT_DELETE, "*"},
                                         {0}};

static const struct cv_stage stage = {
    .name = TABLES ? "test-table-stage" : "test-stage",
    .job_type = TABLES ? "test_table" : "test_stage",
    .needs = TABLES ? CV_STAGE_NEEDS_DATABASE : CV_STAGE_NEEDS_STORE,
    .limits =
        {
            .memory_bytes = 256 << 20,
            .file_bytes = 8 << 20,
            .cpu_seconds = 2,
        },
    .grants = grants,
    .check = check,
    .run = run,
    .commit = commit,
};

int main(int argc, char **argv)
{
    return cv_worker_main(&stage, argc, argv);
}
