#include "cli/cluster.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SYSTEM_HOME "/var/lib/cortana-vision"
enum { ID_LENGTH = 16 };

#define UNPRIVILEGED_USER "postgres"

/* Whether the user can go to `directory`, asked as that user. */
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

static int set_home(struct cli_cluster *cluster, const char *home, struct cv_error *error)
{
    if (snprintf(cluster->home, sizeof(cluster->home), "%s", home) >= (int)sizeof(cluster->home) ||
        snprintf(cluster->data, sizeof(cluster->data), "%s/data", home) >=
            (int)sizeof(cluster->data)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the path of the database is too long");
    }
    return 0;
}

/* A directory of the cluster's user, for nobody else. */
static int make_private(const char *path, const struct cli_cluster *cluster, struct cv_error *error)
{
    if (mkdir(path, 0700) && errno != EEXIST) {
        return cv_fail_errno(error, errno, "make the directory %s", path);
    }
    if (cluster->user != 0 && geteuid() == 0 && chown(path, cluster->user, cluster->group)) {
        return cv_fail_errno(error, errno, "give the directory %s to its user", path);
    }
    return 0;
}

/* The installation's place there: by an id that is kept in the installation's directory, so that a
 * directory that was removed and made again does not meet its old database. */
static int system_home(const char *directory, char *home, size_t size, struct cv_error *error)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/id", directory) >= (int)sizeof(path)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the path of the installation is too long");
    }
    char id[ID_LENGTH + 1] = "";
    cv_auto_file FILE *file = fopen(path, "r+e");
    if (!file || !fgets(id, sizeof(id), file) || strspn(id, "0123456789abcdef") != ID_LENGTH) {
        uint64_t random;
        cv_auto_file FILE *fresh = fopen(path, "we");
        if (!fresh || getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
            return cv_fail_errno(error, errno, "write %s", path);
        }
        (void)snprintf(id, sizeof(id), "%016llx", (unsigned long long)random);
        if (fprintf(fresh, "%s\n", id) < 0 || fflush(fresh)) {
            return cv_fail_errno(error, errno, "write %s", path);
        }
    }
    (void)snprintf(home, size, SYSTEM_HOME "/%s", id);
    return 0;
}

/* A cluster that exists decides by its owner who runs it. */
static int adopt(struct cli_cluster *cluster, const struct stat *status, struct cv_error *error)
{
    uid_t self = geteuid();
    if (status->st_uid == self && self != 0) {
        cluster->user = 0;
        return 0;
    }
    if (self != 0 || status->st_uid == 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the database in %s belongs to user %u: run as that user, or use another "
                       "--data DIR",
                       cluster->home, (unsigned)status->st_uid);
    }
    cluster->user = status->st_uid;
    cluster->group = status->st_gid;
    return 0;
}

/* As root: first under `directory`, else where the user can get to. */
static int locate_as_root(struct cli_cluster *cluster, const char *directory, char *notice,
                          size_t notice_size, struct cv_error *error)
{
    const struct passwd *entry = getpwnam(UNPRIVILEGED_USER);
    if (!entry || entry->pw_uid == 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "PostgreSQL does not run as root, and there is no user " UNPRIVILEGED_USER
                       ": install postgresql, or run as another user");
    }
    cluster->user = entry->pw_uid;
    cluster->group = entry->pw_gid;
    int result = make_private(cluster->home, cluster, error);
    if (result || can_reach(cluster->home, cluster->user, cluster->group)) {
        return result;
    }
    (void)rmdir(cluster->home);
    char home[PATH_MAX];
    result = system_home(directory, home, sizeof(home), error);
    result = result ? result : set_home(cluster, home, error);
    if (result == 0 && mkdir(SYSTEM_HOME, 0755) && errno != EEXIST) {
        result = cv_fail_errno(error, errno, "make the directory " SYSTEM_HOME);
    }
    result = result ? result : make_private(cluster->home, cluster, error);
    if (result == 0) {
        (void)snprintf(notice, notice_size,
                       "the database lies in %s: user " UNPRIVILEGED_USER " cannot reach %s",
                       cluster->home, directory);
    }
    return result;
}

int cli_cluster_locate(struct cli_cluster *cluster, const char *directory, char *notice,
                       size_t notice_size, struct cv_error *error)
{
    *cluster = (struct cli_cluster){0};
    notice[0] = '\0';
    char home[PATH_MAX];
    if (snprintf(home, sizeof(home), "%s/postgres", directory) >= (int)sizeof(home)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the path of the database is too long");
    }
    int result = set_home(cluster, home, error);
    if (result) {
        return result;
    }
    struct stat status;
    char id_path[PATH_MAX];
    (void)snprintf(id_path, sizeof(id_path), "%s/id", directory);
    if (access(cluster->data, F_OK) && access(id_path, F_OK) == 0) {
        char elsewhere[PATH_MAX];
        result = system_home(directory, elsewhere, sizeof(elsewhere), error);
        if (result) {
            return result;
        }
        char data[PATH_MAX + 8];
        (void)snprintf(data, sizeof(data), "%s/data", elsewhere);
        result = access(data, F_OK) ? 0 : set_home(cluster, elsewhere, error);
        if (result) {
            return result;
        }
    }
    if (stat(cluster->data, &status) == 0) {
        result = adopt(cluster, &status, error);
        if (result || cluster->user == 0 ||
            can_reach(cluster->data, cluster->user, cluster->group)) {
            return result;
        }
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the user of the database in %s can no longer reach it: open the "
                       "directories above for searching (chmod o+x)",
                       cluster->home);
    }
    if (geteuid() != 0) {
        return make_private(cluster->home, cluster, error);
    }
    return locate_as_root(cluster, directory, notice, notice_size, error);
}
