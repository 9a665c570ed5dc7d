#include "cli/local/installation.h"

#include "cli/local/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { URL_MAX = 4096 };

/* ---- opening and closing ---- */

static int open_lock(const struct cli_installation *installation, const char *name, int *ret_fd,
                     struct cv_error *error)
{
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof(path), "%s/%s", installation->directory, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    CV_TRY_ERRNO(fd >= 0, error, "open %s", path);
    *ret_fd = fd;
    return 0;
}

/* The parts hold videos and what can be read in them, also in a directory that others may enter. */
static int make_part(const char *path, struct cv_error *error)
{
    if ((mkdir(path, 0700) && errno != EEXIST) || chmod(path, 0700)) {
        return cv_fail_errno(error, errno, "make the directory %s", path);
    }
    return 0;
}

static int make_directories(struct cli_installation *installation, const char *directory,
                            bool create, struct cv_error *error)
{
    if (!create && access(directory, F_OK)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "there is no installation in %s: start with cortana run VIDEO, name another "
                       "with --data DIR, or set DATABASE_URL and STORE_URL",
                       directory);
    }
    CV_TRY_ERRNO(mkdir(directory, 0700) == 0 || errno == EEXIST, error, "make the directory %s",
                 directory);
    CV_TRY_ERRNO(realpath(directory, installation->directory), error, "find %s", directory);
    static const char *const parts[] = {"store", "log", "scratch"};
    for (size_t i = 0; i < CV_COUNT(parts); i++) {
        char path[PATH_MAX + 16];
        (void)snprintf(path, sizeof(path), "%s/%s", installation->directory, parts[i]);
        CV_TRY(make_part(path, error));
    }
    return 0;
}

/* Locks the installation against other starts and stops; `users` is LOCK_SH, or LOCK_EX against all
 * who use the server. */
static int lock_server(struct cli_installation *installation, int users, int *ret_lock,
                       struct cv_error *error)
{
    CV_TRY(open_lock(installation, "lock", ret_lock, error));
    CV_TRY(open_lock(installation, "users", &installation->users, error));
    CV_TRY_ERRNO(flock(*ret_lock, LOCK_EX) == 0, error, "lock %s", installation->directory);
    if (flock(installation->users, users | LOCK_NB)) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "other commands use the database in %s: end them first",
                       installation->directory);
    }
    return 0;
}

/* Finds its cluster, which a command that does not make one needs. */
static int find_server(struct cli_installation *installation, bool create, struct cv_error *error)
{
    CV_TRY(cli_postgres_locate(&installation->postgres, installation->directory,
                               installation->notice, sizeof(installation->notice), error));
    return create || access(installation->postgres.data, F_OK) == 0
               ? 0
               : cv_fail(error, CV_ERROR_CONFIGURATION,
                         "%s holds no database yet: start with cortana run VIDEO",
                         installation->directory);
}

static int start(struct cli_installation *installation, bool create, struct cv_cancel *cancel,
                 struct cv_error *error)
{
    cv_auto_fd int lock = -1;
    int version = 0;
    int newest = 0;
    CV_TRY(lock_server(installation, LOCK_SH, &lock, error));
    CV_TRY(find_server(installation, create, error));
    CV_TRY(cli_postgres_start(&installation->postgres, cancel, error));
    if (cli_postgres_is_old(&installation->postgres, &version, &newest)) {
        (void)snprintf(installation->notice, sizeof(installation->notice),
                       "the database is PostgreSQL %d's, and %d is installed: "
                       "cortana migrate --postgres moves it there",
                       version, newest);
    }
    return 0;
}

int cli_installation_upgrade(const char *directory, char kept[PATH_MAX], int *ret_version,
                             struct cv_cancel *cancel, struct cv_error *error)
{
    struct cli_installation installation = {.running = -1, .page = -1};
    cv_auto_fd int lock = -1;
    CV_TRY(make_directories(&installation, directory, false, error));
    int result = lock_server(&installation, LOCK_EX, &lock, error);
    result = result ? result : find_server(&installation, false, error);
    result = result
                 ? result
                 : cli_postgres_upgrade(&installation.postgres, kept, ret_version, cancel, error);
    close(installation.users);
    return result;
}

int cli_installation_open(struct cli_installation *installation, const char *directory, bool create,
                          struct cv_cancel *cancel, struct cv_error *error)
{
    *installation = (struct cli_installation){.users = -1, .running = -1, .page = -1};
    int result = make_directories(installation, directory, create, error);
    result = result ? result : start(installation, create, cancel, error);
    if (result) {
        cli_installation_close(installation);
    }
    return result;
}

int cli_installation_lock_run(struct cli_installation *installation, struct cv_error *error)
{
    cv_auto_fd int fd = -1;
    CV_TRY(open_lock(installation, "running", &fd, error));
    char text[32] = "";
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
        text[length > 0 ? length : 0] = '\0';
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "another cortana run (process %s) works in %s: wait for it, or use another "
                       "--data DIR",
                       text, installation->directory);
    }
    int length = snprintf(text, sizeof(text), "%d", (int)getpid());
    CV_TRY_ERRNO(ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)length, 0) == length, error,
                 "write the lock of %s", installation->directory);
    installation->running = cv_take_fd(&fd);
    return 0;
}

int cli_installation_announce_page(struct cli_installation *installation, const char *address,
                                   struct cv_error *error)
{
    cv_auto_fd int fd = -1;
    CV_TRY(open_lock(installation, "page", &fd, error));
    size_t length = strlen(address);
    CV_TRY_ERRNO(flock(fd, LOCK_EX) == 0 && ftruncate(fd, 0) == 0 &&
                     pwrite(fd, address, length, 0) == (ssize_t)length,
                 error, "note the page of %s", installation->directory);
    installation->page = cv_take_fd(&fd);
    return 0;
}

bool cli_installation_page(const struct cli_installation *installation,
                           char ret_address[CLI_ADDRESS_SIZE])
{
    struct cv_error ignored;
    cv_auto_fd int fd = -1;
    if (open_lock(installation, "page", &fd, &ignored) || flock(fd, LOCK_SH | LOCK_NB) == 0) {
        return false;
    }
    ssize_t length = pread(fd, ret_address, CLI_ADDRESS_SIZE - 1, 0);
    ret_address[length > 0 ? length : 0] = '\0';
    return length > 0;
}

int cli_installation_revive(struct cli_installation *installation, struct cv_cancel *cancel,
                            struct cv_error *error)
{
    enum { TRIES = 20, PAUSE_MS = 500 };
    cv_auto_fd int lock = -1;
    int result = open_lock(installation, "lock", &lock, error);
    if (result == 0 && flock(lock, LOCK_EX)) {
        result = cv_fail_errno(error, errno, "lock %s", installation->directory);
    }
    /* Shared memory of a killed server may remain for a moment. */
    for (int i = 0; result == 0 && i < TRIES; i++) {
        result = cli_postgres_start(&installation->postgres, cancel, error);
        if (result == 0 || cv_cancel_level(cancel) != CV_CANCEL_NONE || i + 1 == TRIES) {
            return result;
        }
        result = 0;
        (void)usleep(PAUSE_MS * 1000);
    }
    return result;
}

void cli_installation_close(struct cli_installation *installation)
{
    struct cv_error ignored;
    cv_auto_fd int lock = -1;
    if (installation->users >= 0 && open_lock(installation, "lock", &lock, &ignored) == 0 &&
        flock(lock, LOCK_EX) == 0 && flock(installation->users, LOCK_EX | LOCK_NB) == 0) {
        cli_postgres_stop(&installation->postgres);
    }
    int *const locks[] = {&installation->page, &installation->running, &installation->users};
    for (size_t i = 0; i < CV_COUNT(locks); i++) {
        if (*locks[i] >= 0) {
            close(*locks[i]);
            *locks[i] = -1;
        }
    }
}

/* ---- its store ---- */

/* Reads the recorded URL; "" if there is none. */
static int read_recorded_url(const char *path, char url[URL_MAX], struct cv_error *error)
{
    cv_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    url[0] = '\0';
    if (fd < 0) {
        return errno == ENOENT ? 0 : cv_fail_errno(error, errno, "read %s", path);
    }
    ssize_t length = read(fd, url, URL_MAX - 1);
    CV_TRY_ERRNO(length >= 0, error, "read %s", path);
    url[length] = '\0';
    url[strcspn(url, "\n")] = '\0';
    return 0;
}

/* Whether the directory store has objects; its own directories begin with a dot. */
static bool has_objects(const char *path)
{
    DIR *stream = opendir(path);
    bool found = false;
    for (struct dirent *entry; stream && !found && (entry = readdir(stream));) {
        found = entry->d_name[0] != '.';
    }
    if (stream) {
        closedir(stream);
    }
    return found;
}

int cli_installation_store(const struct cli_installation *installation, const char *wanted,
                           char **ret_url, struct cv_error *error)
{
    cv_auto_free char *directory = NULL;
    cv_auto_free char *note = NULL;
    char noted[URL_MAX];
    CV_TRY(cv_format(&directory, error, "%s/store", installation->directory));
    CV_TRY(cv_format(&note, error, "%s/store.url", installation->directory));
    CV_TRY(read_recorded_url(note, noted, error));
    if (!wanted || strcmp(wanted, noted) == 0) {
        return cv_format(ret_url, error, "%s%s",
                         noted[0] ? "" : "dir:", noted[0] ? noted : directory);
    }
    if (noted[0] || has_objects(directory)) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "this installation keeps its objects in %s; for another store name another "
                       "directory with --data DIR",
                       noted[0] ? noted : directory);
    }
    if (strlen(wanted) >= URL_MAX - 1 || strchr(wanted, '\n')) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the store's URL is unusable");
    }
    CV_TRY(cli_replace_file(note, wanted, error));
    return cv_format(ret_url, error, "%s", wanted);
}
