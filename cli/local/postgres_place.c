/* Where an installation's cluster is, and whose it is. */
#include "cli/local/file.h"
#include "cli/local/postgres.h"

#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { ID_LENGTH = 16 };

#define SYSTEM_HOME "/var/lib/cortana-vision"
#define UNPRIVILEGED_USER "postgres"

/* Whether the user can reach `directory`, tested as that user. */
static bool can_reach(const char *directory, uid_t user, gid_t group)
{
    pid_t pid = fork();
    if (pid == 0) {
        bool reached = setgroups(0, NULL) == 0 && setgid(group) == 0 && setuid(user) == 0 &&
                       access(directory, X_OK) == 0;
        _exit(reached ? 0 : 1);
    }
    int status = 1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && status == 0;
}

static int set_home(struct cli_postgres *postgres, const char *home, struct cv_error *error)
{
    if (snprintf(postgres->home, sizeof(postgres->home), "%s", home) >=
            (int)sizeof(postgres->home) ||
        snprintf(postgres->data, sizeof(postgres->data), "%s/data", home) >=
            (int)sizeof(postgres->data)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the path of the database is too long");
    }
    return 0;
}

/* Makes a directory that only the cluster's user can access. */
static int make_private(const char *path, const struct cli_postgres *postgres,
                        struct cv_error *error)
{
    if (mkdir(path, 0700) && errno != EEXIST) {
        return cv_fail_errno(error, errno, "make the directory %s", path);
    }
    if (postgres->user != 0 && geteuid() == 0 && chown(path, postgres->user, postgres->group)) {
        return cv_fail_errno(error, errno, "give the directory %s to its user", path);
    }
    return 0;
}

/* The installation's directory there, named by an id in the installation's own directory, so that
 * an installation that was removed and made again does not use its old database. */
static int system_home(const char *directory, char *home, size_t size, struct cv_error *error)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/id", directory) >= (int)sizeof(path)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the path of the installation is too long");
    }
    char id[ID_LENGTH + 1] = "";
    cv_auto_file FILE *file = fopen(path, "re");
    if (!file || !fgets(id, sizeof(id), file) || strspn(id, "0123456789abcdef") != ID_LENGTH) {
        cv_random_hex(ID_LENGTH / 2, id);
        CV_TRY(cli_replace_file(path, id, error));
    }
    (void)snprintf(home, size, SYSTEM_HOME "/%s", id);
    return 0;
}

/* Uses the owner of an existing cluster as the server's user. */
static int adopt(struct cli_postgres *postgres, const struct stat *status, struct cv_error *error)
{
    uid_t self = geteuid();
    if (status->st_uid == self && self != 0) {
        postgres->user = 0;
        return 0;
    }
    if (self != 0 || status->st_uid == 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the database in %s belongs to user %u: run as that user, or use another "
                       "--data DIR",
                       postgres->home, (unsigned)status->st_uid);
    }
    postgres->user = status->st_uid;
    postgres->group = status->st_gid;
    return 0;
}

/* Lets the server's group pass through root's own directory to the cluster, and nobody else. */
static int let_server_pass(const char *directory, gid_t group, struct cv_error *error)
{
    struct stat status;
    CV_TRY_ERRNO(stat(directory, &status) == 0, error, "look at %s", directory);
    if (status.st_uid != 0 || (status.st_mode & 077) != 0) {
        return 0; /* its mode was chosen by somebody */
    }
    CV_TRY_ERRNO(chown(directory, 0, group) == 0 && chmod(directory, 0710) == 0, error,
                 "open %s to the database's server", directory);
    return 0;
}

/* For root: chooses `directory` if the user can reach it, else the system's directory. */
static int locate_as_root(struct cli_postgres *postgres, const char *directory, char *notice,
                          size_t notice_size, struct cv_error *error)
{
    const struct passwd *entry = getpwnam(UNPRIVILEGED_USER);
    if (!entry || entry->pw_uid == 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "PostgreSQL does not run as root, and there is no user " UNPRIVILEGED_USER
                       ": install postgresql, or run as another user");
    }
    postgres->user = entry->pw_uid;
    postgres->group = entry->pw_gid;
    CV_TRY(let_server_pass(directory, postgres->group, error));
    CV_TRY(make_private(postgres->home, postgres, error));
    if (can_reach(postgres->home, postgres->user, postgres->group)) {
        return 0;
    }
    (void)rmdir(postgres->home);
    char home[PATH_MAX];
    CV_TRY(system_home(directory, home, sizeof(home), error));
    CV_TRY(set_home(postgres, home, error));
    /* Whatever the umask is, the server's user passes through it. */
    if ((mkdir(SYSTEM_HOME, 0755) || chmod(SYSTEM_HOME, 0755)) && errno != EEXIST) {
        return cv_fail_errno(error, errno, "make the directory " SYSTEM_HOME);
    }
    CV_TRY(make_private(postgres->home, postgres, error));
    (void)snprintf(notice, notice_size,
                   "the database lies in %s: user " UNPRIVILEGED_USER " cannot reach %s",
                   postgres->home, directory);
    return 0;
}

int cli_postgres_locate(struct cli_postgres *postgres, const char *directory, char *notice,
                        size_t notice_size, struct cv_error *error)
{
    *postgres = (struct cli_postgres){0};
    notice[0] = '\0';
    char home[PATH_MAX];
    if (snprintf(home, sizeof(home), "%s/postgres", directory) >= (int)sizeof(home)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the path of the database is too long");
    }
    CV_TRY(set_home(postgres, home, error));
    if (snprintf(postgres->passwords, sizeof(postgres->passwords), "%s/passwords", directory) >=
        (int)sizeof(postgres->passwords)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the path of the passwords is too long");
    }
    struct stat status;
    char id_path[PATH_MAX];
    (void)snprintf(id_path, sizeof(id_path), "%s/id", directory);
    if (access(postgres->data, F_OK) && access(id_path, F_OK) == 0) {
        char elsewhere[PATH_MAX];
        CV_TRY(system_home(directory, elsewhere, sizeof(elsewhere), error));
        char data[PATH_MAX + 8];
        (void)snprintf(data, sizeof(data), "%s/data", elsewhere);
        CV_TRY(access(data, F_OK) ? 0 : set_home(postgres, elsewhere, error));
    }
    if (stat(postgres->data, &status) == 0) {
        CV_TRY(adopt(postgres, &status, error));
        if (postgres->user == 0 || can_reach(postgres->data, postgres->user, postgres->group)) {
            return 0;
        }
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the user of the database in %s can no longer reach it: open the "
                       "directories above for searching (chmod o+x)",
                       postgres->home);
    }
    if (geteuid() != 0) {
        return make_private(postgres->home, postgres, error);
    }
    return locate_as_root(postgres, directory, notice, notice_size, error);
}
