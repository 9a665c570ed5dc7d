#include "cli/cluster.h"

#include "common/db/db.h"

#include "cli/process.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

enum {
    START_TIMEOUT_MS = 60000, /* recovery after a crash takes its time */
    STOP_TIMEOUT_MS = 30000,
    POLL_MS = 50,
    SOCKET_PATH_MAX = 107, /* sockaddr_un.sun_path, NUL included, less one */
};

#define SOCKET_FILE "/.s.PGSQL.5432"
#define SUPERUSER "postgres"

/* ---- programs -------------------------------------------------------------------------------- */

/* Directory of the newest server: $PG_BIN, else Debian's. */
static int find_programs(char *directory, size_t size, struct cv_error *error)
{
    const char *given = cv_env("PG_BIN", NULL);
    if (given) {
        (void)snprintf(directory, size, "%s", given);
        return 0;
    }
    glob_t found = {0};
    int64_t newest = -1;
    if (glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            long long version =
                strtoll(found.gl_pathv[i] + strlen("/usr/lib/postgresql/"), NULL, 10);
            if (version > newest) {
                newest = version;
                (void)snprintf(directory, size, "%.*s",
                               (int)(strlen(found.gl_pathv[i]) - strlen("/initdb")),
                               found.gl_pathv[i]);
            }
        }
    }
    globfree(&found);
    return newest >= 0 ? 0
                       : cv_fail(error, CV_ERROR_CONFIGURATION,
                                 "no PostgreSQL server is installed: apt-get install postgresql");
}

static struct cli_process_params params_for(const struct cli_cluster *cluster,
                                            const char *const *argv)
{
    static const char *const environment[] = {"LC_ALL=C.UTF-8", "TZ=UTC", NULL};
    return (struct cli_process_params){
        .argv = argv,
        .environment = environment,
        .without_pg = true,
        .user = cluster->user,
        .group = cluster->group,
    };
}

/* ---- is it running --------------------------------------------------------------------------- */

/* A line of postmaster.pid, 1 is the first; false when there is no such line. */
static bool read_pid_line(const struct cli_cluster *cluster, int wanted, char *line, size_t size)
{
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/postmaster.pid", cluster->data);
    cv_auto_file FILE *file = fopen(path, "re");
    for (int number = 1; file && fgets(line, (int)size, file); number++) {
        if (number == wanted) {
            line[strcspn(line, "\n")] = '\0';
            return true;
        }
    }
    return false;
}

/* A process id alone proves nothing after a crash or in a new container: the server's working
 * directory is its data directory. */
static bool is_server_of(pid_t pid, const char *data)
{
    char link[64];
    (void)snprintf(link, sizeof(link), "/proc/%d/cwd", (int)pid);
    struct stat process;
    struct stat directory;
    return stat(link, &process) == 0 && stat(data, &directory) == 0 &&
           process.st_dev == directory.st_dev && process.st_ino == directory.st_ino;
}

bool cli_cluster_is_running(struct cli_cluster *cluster)
{
    cluster->postmaster = 0;
    char line[PATH_MAX];
    int64_t pid = 0;
    if (!read_pid_line(cluster, 1, line, sizeof(line)) || !cv_parse_int(line, 1, INT32_MAX, &pid) ||
        !is_server_of((pid_t)pid, cluster->data) ||
        !read_pid_line(cluster, 5, cluster->socket, sizeof(cluster->socket)) ||
        cluster->socket[0] == '\0') {
        return false;
    }
    cluster->postmaster = (pid_t)pid;
    return true;
}

/* ---- making and configuring ------------------------------------------------------------------ */

/* Into a directory beside it and renamed at the end, so that a killed initdb leaves no half cluster
 * that looks like a whole one. */
static int make_data(const struct cli_cluster *cluster, const char *programs,
                     struct cv_error *error)
{
    char initdb[PATH_MAX];
    char fresh[PATH_MAX + 8];
    (void)snprintf(initdb, sizeof(initdb), "%s/initdb", programs);
    (void)snprintf(fresh, sizeof(fresh), "%s.new", cluster->data);
    const char *const remove_argv[] = {"/bin/rm", "-rf", "--", fresh, NULL};
    struct cli_process_params remove_params = params_for(cluster, remove_argv);
    int result = cli_process_run(&remove_params, error);
    if (result) {
        return result;
    }
    const char *const argv[] = {initdb,
                                "-D",
                                fresh,
                                "-U",
                                SUPERUSER,
                                "-A",
                                "trust",
                                "-E",
                                "UTF8",
                                "--locale=C.UTF-8",
                                "--no-instructions",
                                NULL};
    struct cli_process_params params = params_for(cluster, argv);
    result = cli_process_run(&params, error);
    if (result == 0 && rename(fresh, cluster->data)) {
        result = cv_fail_errno(error, errno, "put the database in place");
    }
    return result;
}

/* The socket lies beside the data when the path is short enough, else in /tmp. */
static int make_socket_directory(struct cli_cluster *cluster, struct cv_error *error)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/socket", cluster->home) + sizeof(SOCKET_FILE) <
        SOCKET_PATH_MAX) {
        if (mkdir(path, 0700) && errno != EEXIST) {
            return cv_fail_errno(error, errno, "make the directory %s", path);
        }
    } else {
        (void)snprintf(path, sizeof(path), "/tmp/cortana-pg-XXXXXX");
        if (!mkdtemp(path)) {
            return cv_fail_errno(error, errno, "make a directory for the database's socket");
        }
    }
    if (cluster->user != 0 && chown(path, cluster->user, cluster->group)) {
        return cv_fail_errno(error, errno, "give %s to the database's user", path);
    }
    (void)snprintf(cluster->socket, sizeof(cluster->socket), "%s", path);
    return 0;
}

/* A path as an element of a list in a quoted value of postgresql.conf. */
static void append_quoted(struct cv_buffer *text, const char *path)
{
    cv_buffer_text(text, "'\"");
    for (const char *c = path; *c; c++) {
        cv_buffer_append(text, c, 1);
        if (*c == '\'' || *c == '"') {
            cv_buffer_append(text, c, 1);
        }
    }
    cv_buffer_text(text, "\"'");
}

/* Written at every start: the file is ours, and the socket's directory may have changed. It takes
 * the place of postgresql.conf, whose defaults are PostgreSQL's own. */
static int write_settings(const struct cli_cluster *cluster, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_buffer_text(&text, "# Written by cortana at every start.\n"
                          "listen_addresses = ''\n"
                          "unix_socket_permissions = 0700\n"
                          "port = 5432\n"
                          "max_connections = 60\n"
                          "timezone = 'UTC'\n"
                          "log_timezone = 'UTC'\n"
                          "logging_collector = off\n"
                          "log_min_messages = warning\n"
                          "lc_messages = 'C.UTF-8'\n"
                          "dynamic_shared_memory_type = posix\n"
                          "unix_socket_directories = ");
    append_quoted(&text, cluster->socket);
    cv_buffer_text(&text, "\n");
    if (text.failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the database's settings");
    }
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/postgresql.conf", cluster->data);
    cv_auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text.data, text.length) != (ssize_t)text.length) {
        return cv_fail_errno(error, errno, "write %s", path);
    }
    return 0;
}

/* ---- start and stop -------------------------------------------------------------------------- */

int cli_cluster_url(const struct cli_cluster *cluster, const char *database, char **ret_url,
                    struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer url = CV_BUFFER_INIT;
    cv_buffer_printf(&url, "postgresql://" SUPERUSER "@/%s?port=5432&host=", database);
    for (const char *c = cluster->socket; *c; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || strchr("-._~/", *c);
        cv_buffer_printf(&url, plain ? "%c" : "%%%02X", (unsigned char)*c);
    }
    return cv_buffer_take(&url, ret_url, error);
}

/* Waits until the server answers, and makes the database `cortana` when it is not there. */
static int wait_until_ready(struct cli_cluster *cluster, struct cv_cancel *cancel,
                            struct cv_error *error)
{
    cv_auto_free char *url = NULL;
    int result = cli_cluster_url(cluster, "postgres", &url, error);
    if (result) {
        return result;
    }
    int64_t end = cv_monotonic_ms() + START_TIMEOUT_MS;
    const struct cv_db_params params = {.conninfo = url, .cancel = cancel};
    for (;;) {
        cv_auto(cv_db_close) struct cv_db *db = NULL;
        if (cli_process_has_ended(cluster->postmaster, NULL)) {
            cluster->postmaster = 0;
            return cv_fail(error, CV_ERROR_CONFIGURATION,
                           "the private PostgreSQL did not start: see %s/log", cluster->home);
        }
        result = cv_db_open(&params, &db, error);
        if (result == 0) {
            cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
            result =
                cv_db_run(db, &rows, error, "SELECT FROM pg_database WHERE datname = 'cortana'");
            if (result == 0 && cv_db_rows(rows) == 0) {
                result = cv_db_run(db, NULL, error, "CREATE DATABASE cortana");
            }
            return result;
        }
        if (error->type == CV_ERROR_CANCELED || cv_monotonic_ms() > end) {
            return cv_fail_context(error, result, "the private PostgreSQL does not answer");
        }
        (void)usleep(POLL_MS * 1000);
    }
}

static int start_server(struct cli_cluster *cluster, const char *programs, struct cv_error *error)
{
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/log", cluster->home);
    cv_auto_fd int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log < 0) {
        return cv_fail_errno(error, errno, "write %s", path);
    }
    char server[PATH_MAX];
    (void)snprintf(server, sizeof(server), "%s/postgres", programs);
    const char *const argv[] = {server, "-D", cluster->data, NULL};
    struct cli_process_params params = params_for(cluster, argv);
    params.output = log;
    return cli_process_start(&params, &cluster->postmaster, error);
}

int cli_cluster_start(struct cli_cluster *cluster, struct cv_cancel *cancel, struct cv_error *error)
{
    if (cli_cluster_is_running(cluster)) {
        return wait_until_ready(cluster, cancel, error);
    }
    char programs[PATH_MAX - 16] = "";
    int result = find_programs(programs, sizeof(programs), error);
    if (result == 0 && access(cluster->data, F_OK)) {
        result = make_data(cluster, programs, error);
    }
    if (result == 0) {
        /* We have looked: no server runs here. The process of that number is somebody else's. */
        char path[PATH_MAX + 32];
        (void)snprintf(path, sizeof(path), "%s/postmaster.pid", cluster->data);
        (void)unlink(path);
        result = make_socket_directory(cluster, error);
    }
    result = result ? result : write_settings(cluster, error);
    result = result ? result : start_server(cluster, programs, error);
    if (result) {
        return result;
    }
    result = wait_until_ready(cluster, cancel, error);
    if (result) {
        cli_cluster_stop(cluster);
    }
    return result;
}

void cli_cluster_stop(struct cli_cluster *cluster)
{
    if (cluster->postmaster <= 0) {
        return;
    }
    static const int signals[] = {SIGINT, SIGQUIT}; /* fast, then immediate */
    for (size_t i = 0; i < CV_COUNT(signals); i++) {
        if (kill(cluster->postmaster, signals[i]) ||
            cli_process_wait(cluster->postmaster, STOP_TIMEOUT_MS)) {
            break;
        }
    }
    cluster->postmaster = 0;
    if (strncmp(cluster->socket, "/tmp/cortana-pg-", strlen("/tmp/cortana-pg-")) == 0) {
        (void)rmdir(cluster->socket);
    }
}
