#include "cli/local/workers.h"

#include "cli/local/process.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
    RESTARTS_MAX = 5, /* restarts of a worker, before it counts as broken */
    STOP_TIMEOUT_MS = 15000,
    KILL_TIMEOUT_MS = 5000,
    GATEWAY_PORT = 8080, /* if the port is free */
};

static const struct cli_worker_process services[CLI_SERVICE_COUNT] = {
    {.job_type = "scanner",
     .name = "scanner-worker",
     .option = "--interval=2",
     .starts = CLI_STARTS_SERVICE},
    {.job_type = "scheduler",
     .name = "scheduler",
     .option = "--poll-ms=1000",
     .starts = CLI_STARTS_SERVICE},
    {.job_type = "gateway",
     .name = "api-gateway",
     .option = "--api=127.0.0.1:0",
     .starts = CLI_STARTS_SETTING},
};

void cli_workers_init(struct cli_workers *workers, const struct cli_session *session)
{
    *workers = (struct cli_workers){.session = session};
    for (size_t i = 0; i < cli_stage_count; i++) {
        workers->workers[workers->count] = cli_stages[i];
        workers->workers[workers->count++].slots = 1;
    }
    for (size_t i = 0; i < CV_COUNT(services); i++) {
        workers->workers[workers->count++] = services[i];
    }
}

static struct cli_worker_process *find(struct cli_workers *workers, const char *job_type,
                                       size_t length)
{
    for (size_t i = 0; i < workers->count; i++) {
        if (!workers->workers[i].option && strlen(workers->workers[i].job_type) == length &&
            strncmp(workers->workers[i].job_type, job_type, length) == 0) {
            return &workers->workers[i];
        }
    }
    return NULL;
}

bool cli_workers_parse(struct cli_workers *workers, const char *text)
{
    for (const char *part = text;;) {
        size_t length = strcspn(part, ",");
        const char *equals = memchr(part, '=', length);
        struct cli_worker_process *worker =
            equals ? find(workers, part, (size_t)(equals - part)) : NULL;
        char number[16];
        int64_t slots = 0;
        if (!worker ||
            snprintf(number, sizeof(number), "%.*s", (int)(length - (size_t)(equals + 1 - part)),
                     equals + 1) >= (int)sizeof(number) ||
            !cv_parse_int(number, 1, CLI_SLOTS_MAX, &slots)) {
            return false;
        }
        worker->slots = (int)slots;
        if (part[length] == '\0') {
            return true;
        }
        part += length + 1;
    }
}

static bool is_gateway(const struct cli_worker_process *worker)
{
    return strcmp(worker->job_type, "gateway") == 0;
}

static int make_secret_setting(const struct cli_session *session, char **ret_setting,
                               struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    CV_TRY(cli_tokens_secret_path(session->installation.directory, &path, error));
    return cv_format(ret_setting, error, "CORTANA_JWT_SECRET_FILE=%s", path);
}

/* The additional environment variables of a worker. */
struct environment {
    char *database, *store, *scratch, *secret;
    char grace[64], owner[64];
};

static void environment_deinit(struct environment *environment)
{
    free(environment->database);
    free(environment->store);
    free(environment->scratch);
    free(environment->secret);
}
CV_DEFINE_CLEANUP_ADDRESS(struct environment, environment_deinit)

static int fill_environment(struct environment *environment, const struct cli_session *session,
                            const struct cli_worker_process *worker, struct cv_error *error)
{
    const char *login = is_gateway(worker)   ? session->gateway_url
                        : session->fleet_url ? session->fleet_url
                                             : session->database_url;
    /* After Ctrl-C nobody waits for a long transcode: the job is given back. */
    (void)snprintf(environment->grace, sizeof(environment->grace), "CORTANA_GRACE_MS=%s",
                   cv_env("CORTANA_GRACE_MS", "500"));
    (void)snprintf(environment->owner, sizeof(environment->owner), "CORTANA_OWNER=%s",
                   session->owner_id);
    CV_TRY(cv_format(&environment->database, error, "DATABASE_URL=%s", login));
    CV_TRY(cv_format(&environment->store, error, "STORE_URL=%s", session->store_url));
    CV_TRY(make_secret_setting(session, &environment->secret, error));
    return cv_format(&environment->scratch, error, "CORTANA_SCRATCH=%s/scratch",
                     session->installation.directory);
}

static int open_log(const struct cli_session *session, const char *name, int *ret_log,
                    struct cv_error *error)
{
    char path[PATH_MAX + 64];
    (void)snprintf(path, sizeof(path), "%s/log/%s.log", session->installation.directory, name);
    *ret_log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    return *ret_log < 0 ? cv_fail_errno(error, errno, "write %s", path) : 0;
}

static int start_worker(struct cli_workers *workers, struct cli_worker_process *worker,
                        struct cv_error *error)
{
    char program[PATH_MAX];
    char slots[16];
    cv_auto_fd int log = -1;
    cv_auto(environment_deinit) struct environment own = {0};
    CV_TRY(cv_find_program(worker->name, program, sizeof(program), error));
    CV_TRY(open_log(workers->session, worker->name, &log, error));
    CV_TRY(fill_environment(&own, workers->session, worker, error));
    (void)snprintf(slots, sizeof(slots), "%d", worker->slots);
    const char *const environment[] = {
        "CORTANA_CONFIG=", /* the settings of a server are not for this installation */
        own.database, own.store, own.scratch, own.grace, own.owner,
        "CORTANA_LISTEN=", /* several workers cannot use one address */
        /* for the gateway: only the installation's own secret */
        own.secret, "CORTANA_JWT_SECRET=", "CORTANA_JWKS_FILE=", "CORTANA_JWT_ISSUER=",
        "CORTANA_JWT_AUDIENCE=", NULL};
    const char *const worker_argv[] = {program, "--slots", slots, "--poll-ms", "500", NULL};
    const char *const option_argv[] = {program, worker->option, NULL};
    const struct cli_process_params params = {
        .argv = worker->option ? option_argv : worker_argv,
        .environment = environment,
        .without_pg = true,
        .output = log,
        .dies_with_parent = true,
    };
    return cli_process_start(&params, &worker->pid, error);
}

/* Whether the pipeline embeds. */
static int pipeline_embeds(struct cv_db *db, bool *ret_embeds, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(db, &rows, error, "SELECT embedding_model_in_use() IS NOT NULL AS embeds");
    *ret_embeds = result == 0 && cv_db_bool(rows, 0, "embeds");
    return result;
}

int cli_workers_start_services(struct cli_workers *workers, struct cv_error *error)
{
    for (size_t i = 0; i < workers->count; i++) {
        struct cli_worker_process *worker = &workers->workers[i];
        if (worker->pid == 0 && worker->starts == CLI_STARTS_SERVICE) {
            CV_TRY(start_worker(workers, worker, error));
        }
    }
    return 0;
}

/* Whether a worker is started with the others. */
static bool starts_with_others(const struct cli_worker_process *worker)
{
    return worker->starts == CLI_STARTS_ALWAYS ||
           (worker->setting && cv_env(worker->setting, NULL) != NULL);
}

int cli_workers_start(struct cli_workers *workers, const char *job_type, struct cv_error *error)
{
    bool embeds = false;
    CV_TRY(job_type ? 0 : pipeline_embeds(workers->session->db, &embeds, error));
    for (size_t i = 0; i < workers->count; i++) {
        struct cli_worker_process *worker = &workers->workers[i];
        bool is_wanted =
            job_type ? strcmp(job_type, worker->job_type) == 0 : starts_with_others(worker);
        if (!is_wanted && embeds && strcmp(worker->job_type, "embed") == 0) {
            (void)snprintf(workers->note, sizeof(workers->note),
                           "note: texts are to be embedded, but EMBED_URL names no endpoint: "
                           "%s is not started, everything else is",
                           worker->name);
        } else if (worker->pid == 0 && is_wanted) {
            CV_TRY(start_worker(workers, worker, error));
        }
    }
    return 0;
}

/* Finds a free port of loopback: `wanted`, or else any; 0: none. */
static int find_port(int wanted)
{
    cv_auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)wanted),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int yes = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0) {
        return 0;
    }
    if (bind(fd, (struct sockaddr *)&address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        return wanted ? find_port(0) : 0;
    }
    return ntohs(address.sin_port);
}

int cli_workers_start_gateway(struct cli_workers *workers, const char **ret_address,
                              struct cv_error *error)
{
    static const char option[] = "--api=";
    const char *wanted = cv_env("CORTANA_API_LISTEN", NULL);
    if (wanted) {
        (void)snprintf(workers->page, sizeof(workers->page), "%s%s", option, wanted);
    } else {
        (void)snprintf(workers->page, sizeof(workers->page), "%s127.0.0.1:%d", option,
                       find_port(GATEWAY_PORT));
    }
    for (size_t i = 0; i < workers->count; i++) {
        if (is_gateway(&workers->workers[i])) {
            workers->workers[i].option = workers->page;
        }
    }
    *ret_address = workers->page + sizeof(option) - 1;
    return cli_workers_start(workers, "gateway", error);
}

/* Records when the disk becomes so full that workers claim nothing, and when there is room again. */
static void check_disk(struct cli_workers *workers)
{
    enum { LOOK_MS = 2000 };
    const char *directory = workers->session->installation.directory;
    struct cv_error ignored;
    struct cv_disk disk;
    if (cv_monotonic_ms() < workers->disk_at || cv_disk_read(directory, &disk, &ignored)) {
        return;
    }
    workers->disk_at = cv_monotonic_ms() + LOOK_MS;
    bool was_full = workers->disk_level == CV_DISK_EMERGENCY;
    bool is_full = disk.level == CV_DISK_EMERGENCY;
    if (is_full && !was_full) {
        (void)snprintf(workers->note, sizeof(workers->note),
                       "waiting for room: %lld MiB of the disk of %s are free, and nothing new is "
                       "started until more than %lld MiB are",
                       (long long)disk.free_bytes >> 20, directory,
                       (long long)cv_disk_reserve(disk.total_bytes) >> 20);
    } else if (was_full && !is_full) {
        (void)snprintf(workers->note, sizeof(workers->note), "the disk of %s has room again",
                       directory);
    }
    workers->disk_level = disk.level;
}

int cli_workers_check(struct cli_workers *workers, struct cv_error *error)
{
    check_disk(workers);
    for (size_t i = 0; i < workers->count; i++) {
        struct cli_worker_process *worker = &workers->workers[i];
        int status = 0;
        if (worker->pid == 0 || !cli_process_has_ended(worker->pid, &status)) {
            continue;
        }
        worker->pid = 0;
        bool is_misconfigured =
            WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != CV_EXIT_RETRY;
        bool is_over = is_misconfigured || ++worker->restarts > RESTARTS_MAX;
        if (is_over && worker->starts == CLI_STARTS_SETTING) {
            (void)snprintf(workers->note, sizeof(workers->note),
                           "note: %s does not stay up; everything else goes on: see %s/log/%s.log",
                           worker->name, workers->session->installation.directory, worker->name);
            continue;
        }
        if (is_over) {
            return cv_fail(error, CV_ERROR_CONFIGURATION,
                           "%s does not stay up (%s %d): see %s/log/%s.log", worker->name,
                           WIFEXITED(status) ? "exit" : "signal",
                           WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
                           workers->session->installation.directory, worker->name);
        }
        CV_TRY(start_worker(workers, worker, error));
    }
    return 0;
}

const char *cli_workers_warning(struct cli_workers *workers)
{
    if (workers->note[0] == '\0') {
        return NULL;
    }
    (void)snprintf(workers->told, sizeof(workers->told), "%s", workers->note);
    workers->note[0] = '\0';
    return workers->told;
}

void cli_workers_stop(struct cli_workers *workers)
{
    for (size_t i = 0; i < workers->count; i++) {
        if (workers->workers[i].pid > 0) {
            (void)kill(workers->workers[i].pid, SIGTERM);
        }
    }
    int64_t end = cv_monotonic_ms() + STOP_TIMEOUT_MS;
    for (size_t i = 0; i < workers->count; i++) {
        pid_t pid = workers->workers[i].pid;
        if (pid <= 0) {
            continue;
        }
        int64_t left = end - cv_monotonic_ms();
        if (!cli_process_wait(pid, left > 0 ? left : 0)) {
            (void)kill(pid, SIGKILL);
            (void)cli_process_wait(pid, KILL_TIMEOUT_MS);
        }
        workers->workers[i].pid = 0;
    }
}
