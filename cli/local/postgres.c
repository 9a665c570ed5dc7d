#include "cli/local/postgres.h"

#include "common/db/db.h"

#include "cli/local/file.h"
#include "cli/local/process.h"

#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- where PostgreSQL's programs are --------------------------------------------------------- */

#define PROGRAMS "/usr/lib/postgresql"

/* The newest version of which this program is installed; 0: there is none. */
static int newest_version(const char *name)
{
    char pattern[PATH_MAX];
    glob_t found = {0};
    long newest = 0;
    (void)snprintf(pattern, sizeof(pattern), PROGRAMS "/*/bin/%s", name);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            long version = strtol(found.gl_pathv[i] + strlen(PROGRAMS "/"), NULL, 10);
            newest = version > newest ? version : newest;
        }
    }
    globfree(&found);
    return (int)newest;
}

static bool is_installed(int version, const char *name)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), PROGRAMS "/%d/bin/%s", version, name);
    return access(path, X_OK) == 0;
}

int cli_postgres_program(const char *name, int version, char *path, size_t size,
                         struct cv_error *error)
{
    const char *given = cv_env("PG_BIN", NULL);
    if (given) {
        (void)snprintf(path, size, "%s/%s", given, name);
        return 0;
    }
    int found = is_installed(version, name) ? version : newest_version(name);
    (void)snprintf(path, size, PROGRAMS "/%d/bin/%s", found, name);
    return found > 0 ? 0
                     : cv_fail(error, CV_ERROR_CONFIGURATION,
                               "%s is not installed: apt-get install postgresql", name);
}

enum {
    START_TIMEOUT_MS = 60000, /* recovery after a crash takes long */
    STOP_TIMEOUT_MS = 30000,
    POLL_MS = 50,
    SOCKET_PATH_MAX = 107, /* sockaddr_un.sun_path, NUL included, less one */
    PASSWORD_BYTES = 32,
};

#define SOCKET_FILE "/.s.PGSQL.5432"
#define LONG_SOCKET_PREFIX "/tmp/cortana-pg-"

static const char *const role_names[] = {
    [CLI_ROLE_SUPERUSER] = "postgres",        [CLI_ROLE_OWNER] = "cortana_owner",
    [CLI_ROLE_OPERATOR] = "cortana_operator", [CLI_ROLE_FLEET] = "cortana_fleet",
    [CLI_ROLE_GATEWAY] = "cortana_api",
};

/* ---- passwords ------------------------------------------------------------------------------- */

static void password_path(const struct cli_postgres *postgres, enum cli_role role,
                          char path[PATH_MAX + 32])
{
    (void)snprintf(path, PATH_MAX + 32, "%s/%s", postgres->passwords, role_names[role]);
}

static int make_password(const char *path, enum cli_role role, struct cv_error *error)
{
    char password[2 * PASSWORD_BYTES + 1];
    cv_auto_free char *line = NULL;
    cv_random_hex(PASSWORD_BYTES, password);
    CV_TRY(cv_format(&line, error, "*:*:*:%s:%s\n", role_names[role], password));
    return cli_replace_file(path, line, error);
}

/* Makes one file per role, in the format of libpq's password files, readable only by the
 * installation's user. */
static int make_passwords(const struct cli_postgres *postgres, struct cv_error *error)
{
    if ((mkdir(postgres->passwords, 0700) && errno != EEXIST) || chmod(postgres->passwords, 0700)) {
        return cv_fail_errno(error, errno, "make the directory %s", postgres->passwords);
    }
    for (size_t i = 0; i < CV_COUNT(role_names); i++) {
        char path[PATH_MAX + 32];
        password_path(postgres, (enum cli_role)i, path);
        CV_TRY(access(path, F_OK) ? make_password(path, (enum cli_role)i, error) : 0);
    }
    return 0;
}

static int read_password(const struct cli_postgres *postgres, enum cli_role role,
                         char password[2 * PASSWORD_BYTES + 1], struct cv_error *error)
{
    char path[PATH_MAX + 32];
    char line[256] = "";
    password_path(postgres, role, path);
    cv_auto_file FILE *file = fopen(path, "re");
    if (!file || !fgets(line, sizeof(line), file)) {
        return cv_fail_errno(error, errno ? errno : ENODATA, "read %s", path);
    }
    const char *colon = strrchr(line, ':');
    size_t length = colon ? strspn(colon + 1, "0123456789abcdef") : 0;
    if (length != 2 * (size_t)PASSWORD_BYTES) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s holds no password", path);
    }
    memcpy(password, colon + 1, length);
    password[length] = '\0';
    return 0;
}

/* Writes the superuser's password to where initdb, which runs as the server's user, can read it. */
static int write_initial_password(const struct cli_postgres *postgres, const char *path,
                                  struct cv_error *error)
{
    char password[2 * PASSWORD_BYTES + 1];
    CV_TRY(read_password(postgres, CLI_ROLE_SUPERUSER, password, error));
    (void)unlink(path);
    cv_auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd, "%s\n", password) < 0 ||
        (postgres->user != 0 && fchown(fd, postgres->user, postgres->group))) {
        return cv_fail_errno(error, errno, "write %s", path);
    }
    return 0;
}

/* ---- programs -------------------------------------------------------------------------------- */

static struct cli_process_params params_for(const struct cli_postgres *postgres,
                                            const char *const *argv)
{
    static const char *const environment[] = {"LC_ALL=C.UTF-8", "TZ=UTC", NULL};
    return (struct cli_process_params){
        .argv = argv,
        .environment = environment,
        .without_pg = true,
        .user = postgres->user,
        .group = postgres->group,
    };
}

/* The version of PostgreSQL that made the data directory; 0: there is none. */
static int data_version(const struct cli_postgres *postgres)
{
    char path[PATH_MAX + 32];
    char text[32] = "";
    int64_t version = 0;
    (void)snprintf(path, sizeof(path), "%s/PG_VERSION", postgres->data);
    cv_auto_file FILE *file = fopen(path, "re");
    if (!file || !fgets(text, sizeof(text), file)) {
        return 0;
    }
    text[strcspn(text, "\n")] = '\0';
    return cv_parse_int(text, 1, INT16_MAX, &version) ? (int)version : 0;
}

/* Finds the directory of the programs for the data directory: a server opens only data of its own
 * version. */
static int find_programs(const struct cli_postgres *postgres, char *programs, size_t size,
                         struct cv_error *error)
{
    int version = data_version(postgres);
    if (version > 0 && !cv_env("PG_BIN", NULL) && !is_installed(version, "postgres")) {
        char newest[32] = "";
        (void)snprintf(newest, sizeof(newest), " (%d is)", newest_version("postgres"));
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the database in %s is PostgreSQL %d's, which is not installed%s: install "
                       "postgresql-%d (cortana migrate --postgres then moves it into a newer one); "
                       "or, where it still opens, run cortana backup DIR, and here cortana restore "
                       "DIR --data NEW",
                       postgres->home, version, newest_version("postgres") > 0 ? newest : "",
                       version);
    }
    CV_TRY(cli_postgres_program("initdb", version, programs, size, error));
    *strrchr(programs, '/') = '\0';
    return 0;
}

/* ---- whether the server runs ----------------------------------------------------------------- */

/* Reads a line of postmaster.pid, 1 is the first; false if it does not exist. */
static bool read_pid_line(const struct cli_postgres *postgres, int wanted, char *line, size_t size)
{
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/postmaster.pid", postgres->data);
    cv_auto_file FILE *file = fopen(path, "re");
    for (int number = 1; file && fgets(line, (int)size, file); number++) {
        if (number == wanted) {
            line[strcspn(line, "\n")] = '\0';
            return true;
        }
    }
    return false;
}

/* Whether the process is the server of this cluster. Its id alone proves nothing after a crash or
 * in a new container, but a server's working directory is its data directory. */
static bool is_server_of(pid_t pid, const char *data)
{
    char link[64];
    (void)snprintf(link, sizeof(link), "/proc/%d/cwd", (int)pid);
    struct stat process;
    struct stat directory;
    return stat(link, &process) == 0 && stat(data, &directory) == 0 &&
           process.st_dev == directory.st_dev && process.st_ino == directory.st_ino;
}

/* Whether the server runs; fills `postmaster` and `socket`. Files that a crash has left do not
 * count. */
static bool is_running(struct cli_postgres *postgres)
{
    postgres->postmaster = 0;
    char line[PATH_MAX];
    int64_t pid = 0;
    if (!read_pid_line(postgres, 1, line, sizeof(line)) ||
        !cv_parse_int(line, 1, INT32_MAX, &pid) || !is_server_of((pid_t)pid, postgres->data) ||
        !read_pid_line(postgres, 5, postgres->socket, sizeof(postgres->socket)) ||
        postgres->socket[0] == '\0') {
        return false;
    }
    postgres->postmaster = (pid_t)pid;
    return true;
}

/* ---- making and configuring ------------------------------------------------------------------ */

static int remove_folder(const struct cli_postgres *postgres, const char *path,
                         struct cv_error *error)
{
    const char *const argv[] = {"/bin/rm", "-rf", "--", path, NULL};
    struct cli_process_params params = params_for(postgres, argv);
    return cli_process_run(&params, error);
}

/* Makes the cluster in another directory that is renamed at the end, so that a killed initdb leaves
 * no incomplete cluster. */
static int make_data(const struct cli_postgres *postgres, const char *programs,
                     struct cv_error *error)
{
    char initdb[PATH_MAX];
    char fresh[PATH_MAX + 8];
    (void)snprintf(initdb, sizeof(initdb), "%s/initdb", programs);
    (void)snprintf(fresh, sizeof(fresh), "%s.new", postgres->data);
    CV_TRY(remove_folder(postgres, fresh, error));
    char password_file[PATH_MAX + 16];
    (void)snprintf(password_file, sizeof(password_file), "%s/password.new", postgres->home);
    CV_TRY(write_initial_password(postgres, password_file, error));
    const char *const argv[] = {initdb,
                                "-D",
                                fresh,
                                "-U",
                                role_names[CLI_ROLE_SUPERUSER],
                                "-A",
                                "scram-sha-256",
                                "--pwfile",
                                password_file,
                                "-E",
                                "UTF8",
                                "--locale=C.UTF-8",
                                "--no-instructions",
                                NULL};
    struct cli_process_params params = params_for(postgres, argv);
    int result = cli_process_run(&params, error);
    (void)unlink(password_file);
    if (result == 0 && rename(fresh, postgres->data)) {
        result = cv_fail_errno(error, errno, "put the database in place");
    }
    return result;
}

/* Makes the socket's directory beside the data if the path is short enough, else in /tmp. */
static int make_socket_directory(struct cli_postgres *postgres, struct cv_error *error)
{
    char path[PATH_MAX];
    if (postgres->socket[0] != '\0' && access(postgres->socket, F_OK) == 0) {
        return 0; /* it was started before; its clients know this path */
    }
    if (snprintf(path, sizeof(path), "%s/socket", postgres->home) + sizeof(SOCKET_FILE) <
        SOCKET_PATH_MAX) {
        if ((mkdir(path, 0700) && errno != EEXIST) || chmod(path, 0700)) {
            return cv_fail_errno(error, errno, "make the directory %s", path);
        }
    } else {
        (void)snprintf(path, sizeof(path), LONG_SOCKET_PREFIX "XXXXXX");
        CV_TRY_ERRNO(mkdtemp(path), error, "make a directory for the database's socket");
    }
    if (postgres->user != 0 && chown(path, postgres->user, postgres->group)) {
        return cv_fail_errno(error, errno, "give %s to the database's user", path);
    }
    (void)snprintf(postgres->socket, sizeof(postgres->socket), "%s", path);
    return 0;
}

/* Appends a path as an element of a list in a quoted value of postgresql.conf. */
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

/* Replaces a file in the data directory. */
static int write_file(const struct cli_postgres *postgres, const char *name,
                      const struct cv_buffer *text, struct cv_error *error)
{
    CV_TRY_MEMORY(!text->failed, error, "the database's settings");
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/%s", postgres->data, name);
    cv_auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    CV_TRY_ERRNO(fd >= 0 && cv_write_all(fd, text->data, text->length) == 0, error, "write %s",
                 path);
    return 0;
}

/* Writes the settings at every start, because the socket's directory may have changed. They replace
 * PostgreSQL's own files; for settings that are not named PostgreSQL's defaults apply. */
static int write_settings(const struct cli_postgres *postgres, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer access_rules = CV_BUFFER_INIT;
    cv_buffer_text(&text, "# Written by cortana at every start.\n"
                          "listen_addresses = ''\n"
                          "unix_socket_permissions = 0700\n"
                          "password_encryption = 'scram-sha-256'\n"
                          "port = 5432\n"
                          "max_connections = 60\n"
                          "timezone = 'UTC'\n"
                          "log_timezone = 'UTC'\n"
                          "logging_collector = off\n"
                          "log_min_messages = warning\n"
                          "lc_messages = 'C.UTF-8'\n"
                          "dynamic_shared_memory_type = posix\n"
                          "unix_socket_directories = ");
    append_quoted(&text, postgres->socket);
    cv_buffer_text(&text, "\n");
    cv_buffer_text(&access_rules,
                   "# Written by cortana at every start: a password for everybody, and "
                   "no network.\n"
                   "local all all scram-sha-256\n"
                   "host all all all reject\n");
    CV_TRY(write_file(postgres, "postgresql.conf", &text, error));
    return write_file(postgres, "pg_hba.conf", &access_rules, error);
}

/* ---- start and stop -------------------------------------------------------------------------- */

int cli_postgres_url(const struct cli_postgres *postgres, enum cli_role role, char **ret_url,
                     struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer url = CV_BUFFER_INIT;
    char passwords[PATH_MAX + 32];
    password_path(postgres, role, passwords);
    cv_buffer_printf(&url, "postgresql://%s@/%s?port=5432", role_names[role],
                     role == CLI_ROLE_SUPERUSER ? "postgres" : "cortana");
    const char *const parameters[][2] = {{"host", postgres->socket}, {"passfile", passwords}};
    for (size_t i = 0; i < CV_COUNT(parameters); i++) {
        cv_buffer_printf(&url, "&%s=", parameters[i][0]);
        cv_percent_encode(&url, parameters[i][1], true);
    }
    return cv_buffer_detach(&url, ret_url, error);
}

/* Makes missing roles. The owner of the schema is not a superuser; it makes the roles to which the
 * migrations grant rights, so that it may grant them. */
static int make_roles(const struct cli_postgres *postgres, struct cv_db *db, struct cv_error *error)
{
    static const char roles[] =
        "DO $$ BEGIN"
        " IF to_regrole('cortana_owner') IS NULL THEN"
        "  CREATE ROLE cortana_owner LOGIN CREATEROLE; END IF;"
        " SET LOCAL ROLE cortana_owner;"
        " IF to_regrole('service_role') IS NULL THEN CREATE ROLE service_role NOLOGIN; END IF;"
        " IF to_regrole('cortana_worker') IS NULL THEN CREATE ROLE cortana_worker NOLOGIN; END IF;"
        " IF to_regrole('cortana_gateway') IS NULL THEN CREATE ROLE cortana_gateway NOLOGIN; END "
        "IF;"
        " RESET ROLE;"
        " IF to_regrole('cortana_operator') IS NULL THEN CREATE ROLE cortana_operator LOGIN; END "
        "IF;"
        " IF to_regrole('cortana_fleet') IS NULL THEN CREATE ROLE cortana_fleet LOGIN; END IF;"
        " IF to_regrole('cortana_api') IS NULL THEN CREATE ROLE cortana_api LOGIN; END IF;"
        " GRANT service_role TO cortana_owner, cortana_operator;"
        " GRANT cortana_gateway TO cortana_api;"
        " GRANT cortana_worker TO cortana_fleet; END $$";
    CV_TRY(cv_db_script(db, roles, error));
    for (size_t i = CLI_ROLE_OWNER; i < CV_COUNT(role_names); i++) {
        char password[2 * PASSWORD_BYTES + 1];
        char sql[256];
        CV_TRY(read_password(postgres, (enum cli_role)i, password, error));
        (void)snprintf(sql, sizeof(sql), "ALTER ROLE %s PASSWORD '%s'", role_names[i], password);
        CV_TRY(cv_db_script(db, sql, error));
    }
    return 0;
}

/* Makes the database last: if it exists, the roles exist. */
static int make_database(const struct cli_postgres *postgres, struct cv_db *db,
                         struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error, "SELECT FROM pg_database WHERE datname = 'cortana'"));
    if (cv_db_rows(rows) > 0) {
        return 0;
    }
    CV_TRY(make_roles(postgres, db, error));
    return cv_db_run(db, NULL, error, "CREATE DATABASE cortana OWNER cortana_owner");
}

/* Fails with the reason in what the server has logged since it was started. */
static int fail_start(const struct cli_postgres *postgres, struct cv_error *error)
{
    enum { LOG_MAX = 64 << 10 };
    /* What the server answers who asks too early whether it has started. */
    static const char too_early[] = "the database system is ";
    char path[PATH_MAX + 32];
    cv_auto_free char *text = calloc(1, LOG_MAX + 1);
    (void)snprintf(path, sizeof(path), "%s/log", postgres->home);
    cv_auto_fd int log = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t length = text && log >= 0 ? pread(log, text, LOG_MAX, postgres->log_start) : 0;
    struct cv_disk disk;
    bool is_full =
        cv_disk_read(postgres->home, &disk, error) == 0 && disk.level == CV_DISK_EMERGENCY;
    /* The log of a full disk may be empty, or end before the line that says why. */
    bool is_told = length > 0 && (strstr(text, "FATAL") || strstr(text, "PANIC"));
    const char *reason = is_full && !is_told ? strerror(ENOSPC)
                         : length > 0        ? cli_process_reason(text, too_early)
                                             : "it says nothing";
    return cli_process_fail(reason, error, "the private PostgreSQL did not start (see %.180s)",
                            path);
}

/* Waits until the server answers, and makes the database `cortana` if it is missing. */
static int wait_until_ready(struct cli_postgres *postgres, struct cv_cancel *cancel,
                            struct cv_error *error)
{
    cv_auto_free char *url = NULL;
    int result = cli_postgres_url(postgres, CLI_ROLE_SUPERUSER, &url, error);
    if (result) {
        return result;
    }
    int64_t end = cv_monotonic_ms() + START_TIMEOUT_MS;
    const struct cv_db_params params = {.conninfo = url, .cancel = cancel};
    for (;;) {
        cv_auto(cv_db_close) struct cv_db *db = NULL;
        if (cli_process_has_ended(postgres->postmaster, NULL)) {
            postgres->postmaster = 0;
            return fail_start(postgres, error);
        }
        result = cv_db_open(&params, &db, error);
        if (result == 0) {
            return make_database(postgres, db, error);
        }
        if (error->type == CV_ERROR_CANCELED || error->type == CV_ERROR_AUTHENTICATION ||
            cv_monotonic_ms() > end) {
            return cv_fail_context(error, result, "the private PostgreSQL does not answer");
        }
        (void)usleep(POLL_MS * 1000);
    }
}

static int start_server(struct cli_postgres *postgres, const char *programs, struct cv_error *error)
{
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/log", postgres->home);
    cv_auto_fd int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    CV_TRY_ERRNO(log >= 0, error, "write %s", path);
    postgres->log_start = lseek(log, 0, SEEK_END);
    char server[PATH_MAX];
    (void)snprintf(server, sizeof(server), "%s/postgres", programs);
    const char *const argv[] = {server, "-D", postgres->data, NULL};
    struct cli_process_params params = params_for(postgres, argv);
    params.output = log;
    return cli_process_start(&params, &postgres->postmaster, error);
}

/* Removes postmaster.pid if another process has the number in it, because then the server would not
 * start; it was checked before that no server runs here. If no process has the number, the server
 * handles the file itself. */
static void remove_foreign_pid(const struct cli_postgres *postgres)
{
    char line[PATH_MAX];
    int64_t pid = 0;
    if (read_pid_line(postgres, 1, line, sizeof(line)) && cv_parse_int(line, 1, INT32_MAX, &pid) &&
        (kill((pid_t)pid, 0) == 0 || errno != ESRCH)) {
        char path[PATH_MAX + 32];
        (void)snprintf(path, sizeof(path), "%s/postmaster.pid", postgres->data);
        (void)unlink(path);
        (void)snprintf(path, sizeof(path), "%s" SOCKET_FILE ".lock", postgres->socket);
        (void)unlink(path);
    }
}

int cli_postgres_start(struct cli_postgres *postgres, struct cv_cancel *cancel,
                       struct cv_error *error)
{
    CV_TRY(make_passwords(postgres, error));
    if (is_running(postgres)) {
        return wait_until_ready(postgres, cancel, error);
    }
    char programs[PATH_MAX - 16] = "";
    CV_TRY(find_programs(postgres, programs, sizeof(programs), error));
    CV_TRY(access(postgres->data, F_OK) ? make_data(postgres, programs, error) : 0);
    CV_TRY(make_socket_directory(postgres, error));
    remove_foreign_pid(postgres);
    CV_TRY(write_settings(postgres, error));
    CV_TRY(start_server(postgres, programs, error));
    int result = wait_until_ready(postgres, cancel, error);
    if (result) {
        cli_postgres_stop(postgres);
    }
    return result;
}

void cli_postgres_stop(struct cli_postgres *postgres)
{
    if (postgres->postmaster <= 0) {
        return;
    }
    static const int signals[] = {SIGINT, SIGQUIT}; /* fast shutdown, then immediate */
    for (size_t i = 0; i < CV_COUNT(signals); i++) {
        if (kill(postgres->postmaster, signals[i]) ||
            cli_process_wait(postgres->postmaster, STOP_TIMEOUT_MS)) {
            break;
        }
    }
    postgres->postmaster = 0;
    if (strncmp(postgres->socket, LONG_SOCKET_PREFIX, strlen(LONG_SOCKET_PREFIX)) == 0) {
        (void)rmdir(postgres->socket);
    }
}

/* ---- a newer version ------------------------------------------------------------------------- */

/* Lets the server's user in without a password, because pg_upgrade starts both servers itself. Only
 * that user reaches the folder of their socket. The next start replaces this file. */
static int let_in(const struct cli_postgres *postgres, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer rules = CV_BUFFER_INIT;
    cv_buffer_text(&rules, "local all all trust\n");
    return write_file(postgres, "pg_hba.conf", &rules, error);
}

/* Copies the cluster into the empty one `to`, by the newer version's pg_upgrade. */
static int run_upgrade(const struct cli_postgres *postgres, const char *programs,
                       const struct cli_postgres *to, const char *to_programs,
                       struct cv_error *error)
{
    char upgrade[PATH_MAX];
    char script[PATH_MAX + 32];
    (void)snprintf(upgrade, sizeof(upgrade), "%s/pg_upgrade", to_programs);
    CV_TRY(let_in(postgres, error));
    CV_TRY(let_in(to, error));
    const char *const argv[] = {upgrade,
                                "-b",
                                programs,
                                "-B",
                                to_programs,
                                "-d",
                                postgres->data,
                                "-D",
                                to->data,
                                "-U",
                                role_names[CLI_ROLE_SUPERUSER],
                                NULL};
    struct cli_process_params params = params_for(postgres, argv);
    params.directory = postgres->socket;
    int result = cli_process_run(&params, error);
    /* It would remove the folder in which the new data is put. */
    (void)snprintf(script, sizeof(script), "%s/delete_old_cluster.sh", postgres->socket);
    (void)unlink(script);
    return result ? cv_fail_context(error, result, "pg_upgrade, which says more in %s/%s", to->data,
                                    "pg_upgrade_output.d")
                  : 0;
}

bool cli_postgres_is_old(const struct cli_postgres *postgres, int *ret_version, int *ret_newest)
{
    *ret_version = data_version(postgres);
    *ret_newest = newest_version("pg_upgrade");
    return !cv_env("PG_BIN", NULL) && *ret_newest > *ret_version;
}

int cli_postgres_upgrade(struct cli_postgres *postgres, char kept[PATH_MAX], int *ret_version,
                         struct cv_cancel *cancel, struct cv_error *error)
{
    int version = 0;
    int newest = 0;
    char programs[PATH_MAX - 16] = "";
    char to_programs[PATH_MAX - 16] = "";
    struct cli_postgres to = *postgres;
    if (!cli_postgres_is_old(postgres, &version, &newest)) {
        return CLI_POSTGRES_IS_NEWEST;
    }
    CV_TRY(find_programs(postgres, programs, sizeof(programs), error));
    (void)snprintf(to_programs, sizeof(to_programs), PROGRAMS "/%d/bin", newest);
    (void)snprintf(to.data, sizeof(to.data), "%.*s.%d", PATH_MAX - 16, postgres->data, newest);
    (void)snprintf(kept, PATH_MAX, "%.*s.%d", PATH_MAX - 16, postgres->data, version);
    /* pg_upgrade takes only what was shut down in order. */
    CV_TRY(cli_postgres_start(postgres, cancel, error));
    cli_postgres_stop(postgres);
    CV_TRY(make_socket_directory(postgres, error));
    CV_TRY(remove_folder(postgres, to.data, error));
    CV_TRY(make_data(&to, to_programs, error));
    CV_TRY(run_upgrade(postgres, programs, &to, to_programs, error));
    CV_TRY_ERRNO(renameat2(AT_FDCWD, to.data, AT_FDCWD, postgres->data, RENAME_EXCHANGE) == 0 &&
                     rename(to.data, kept) == 0,
                 error, "put the database in place");
    *ret_version = newest;
    return 0;
}
