#include "common/worker/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static const char prefix[] = "cortana-scratch-";

enum {
    DIRECTORY_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
    /* A stage may nest directories deeper than this process may hold descriptors or stack; what
     * lies deeper is moved up and removed from there. */
    DEPTH_MAX = 32,
};

static inline void close_directory(DIR **directory)
{
    if (*directory) {
        closedir(*directory);
    }
}

/* What one removal works with: the top directory, and a counter for names of moved ones. */
struct removal {
    int top_fd;
    unsigned long moved;
};

static int remove_entry(struct removal *removal, int parent_fd, const char *name, int depth,
                        struct cv_error *error);

static int open_directory(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, DIRECTORY_FLAGS);
    if (fd < 0 && errno == EACCES && fchmodat(parent_fd, name, 0700, 0) == 0) {
        fd = openat(parent_fd, name, DIRECTORY_FLAGS);
    }
    return fd;
}

static int empty_directory(struct removal *removal, int fd, int depth, struct cv_error *error)
{
    __attribute__((cleanup(close_directory))) DIR *directory = fdopendir(fd);
    if (!directory) {
        int error_number = errno;
        close(fd);
        return cv_fail_errno(error, error_number, "cannot read a scratch directory");
    }
    (void)fchmod(fd, 0700);
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        int r = remove_entry(removal, fd, entry->d_name, depth + 1, error);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Under a name that is free: a stage may have taken any. */
static int move_to_top(struct removal *removal, int parent_fd, const char *name,
                       struct cv_error *error)
{
    char elsewhere[48];
    int r = -1;
    do {
        (void)snprintf(elsewhere, sizeof(elsewhere), ".moved-%lu", removal->moved++);
        r = renameat2(parent_fd, name, removal->top_fd, elsewhere, RENAME_NOREPLACE);
    } while (r != 0 && errno == EEXIST);
    return r == 0 ? 0 : cv_fail_errno(error, errno, "cannot move %s within scratch", name);
}

static int remove_entry(struct removal *removal, int parent_fd, const char *name, int depth,
                        struct cv_error *error)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return cv_fail_errno(error, errno, "cannot remove %s from scratch", name);
    }
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0) {
        return 0;
    }
    if (depth > DEPTH_MAX) {
        return move_to_top(removal, parent_fd, name, error);
    }
    int fd = open_directory(parent_fd, name);
    if (fd < 0) {
        return cv_fail_errno(error, errno, "cannot open %s in scratch", name);
    }
    int r = empty_directory(removal, fd, depth, error);
    if (r < 0) {
        return r;
    }
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return 0;
    }
    return cv_fail_errno(error, errno, "cannot remove %s from scratch", name);
}

/* Removes `name` under the open directory, whatever it is: links are removed, never followed. */
static int remove_tree(int parent_fd, const char *name, struct cv_error *error)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    cv_auto_fd int top_fd = open_directory(parent_fd, name);
    if (top_fd < 0) {
        return cv_fail_errno(error, errno, "cannot open %s in scratch", name);
    }
    struct removal removal = {.top_fd = top_fd};
    unsigned long moved_before = 0;
    /* Another pass takes what the last one moved to the top. */
    do {
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
            return 0;
        }
        if (errno != ENOTEMPTY && errno != EEXIST) {
            return cv_fail_errno(error, errno, "cannot remove %s", name);
        }
        int fd = openat(top_fd, ".", DIRECTORY_FLAGS);
        if (fd < 0) {
            return cv_fail_errno(error, errno, "cannot open %s in scratch", name);
        }
        moved_before = removal.moved;
        int r = empty_directory(&removal, fd, 0, error);
        if (r < 0) {
            return r;
        }
    } while (removal.moved > moved_before);
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return 0;
    }
    return cv_fail_errno(error, errno, "cannot remove %s", name);
}

/* Leftovers that cannot be removed (another user's) are left alone: they harm nobody. */
static void sweep(int parent_fd)
{
    int list_fd = openat(parent_fd, ".", DIRECTORY_FLAGS);
    if (list_fd < 0) {
        return;
    }
    __attribute__((cleanup(close_directory))) DIR *directory = fdopendir(list_fd);
    if (!directory) {
        close(list_fd);
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        struct stat status;
        if (strncmp(entry->d_name, prefix, sizeof(prefix) - 1) != 0) {
            continue;
        }
        cv_auto_fd int fd = openat(parent_fd, entry->d_name, DIRECTORY_FLAGS);
        if (fd < 0 || fstat(fd, &status) != 0 || status.st_uid != geteuid() ||
            flock(fd, LOCK_EX | LOCK_NB) != 0) {
            continue;
        }
        struct cv_error error;
        if (remove_tree(parent_fd, entry->d_name, &error) < 0) {
            cv_log(CV_LOG_DEBUG, "%s", error.message);
        }
    }
}

/* Between mkdtemp and the lock another process may take the directory for a leftover: then it is
 * unlinked, and another one is made. */
static int make_own(struct cv_scratch *scratch, const char *parent, struct cv_error *error)
{
    enum { TRIES = 20 };
    for (int i = 0; i < TRIES; i++) {
        cv_auto_free char *path = NULL;
        int r = cv_format(&path, error, "%s/%sXXXXXX", parent, prefix);
        if (r < 0) {
            return r;
        }
        if (!mkdtemp(path)) {
            return cv_fail_errno(error, errno, "cannot make a scratch directory in %s", parent);
        }
        cv_auto_fd int fd = open(path, DIRECTORY_FLAGS);
        struct stat status;
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0 &&
            status.st_nlink > 0) {
            (void)snprintf(scratch->name, sizeof(scratch->name), "%s", strrchr(path, '/') + 1);
            scratch->path = cv_take(path);
            scratch->fd = cv_take_fd(&fd);
            return 0;
        }
    }
    return cv_fail(error, CV_ERROR_IO, "cannot keep a scratch directory in %s", parent);
}

int cv_scratch_open(struct cv_scratch *ret_scratch, struct cv_error *error)
{
    const char *parent = cv_env("CORTANA_SCRATCH", cv_env("TMPDIR", "/tmp"));
    cv_auto(cv_scratch_close) struct cv_scratch scratch = CV_SCRATCH_INIT;
    cv_auto_free char *whole = realpath(parent, NULL);
    if (!whole) {
        int error_number = errno;
        return cv_fail(error, CV_ERROR_CONFIGURATION, "scratch directory %s: %s", parent,
                       strerror(error_number));
    }
    scratch.parent_fd = open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scratch.parent_fd < 0) {
        return cv_fail_errno(error, errno, "scratch directory %s", whole);
    }
    sweep(scratch.parent_fd);
    int r = make_own(&scratch, whole, error);
    if (r < 0) {
        return r;
    }
    *ret_scratch = scratch;
    scratch = (struct cv_scratch)CV_SCRATCH_INIT;
    return 0;
}

void cv_scratch_abandon(struct cv_scratch *scratch)
{
    if (scratch->fd >= 0) {
        close(scratch->fd);
    }
    if (scratch->parent_fd >= 0) {
        close(scratch->parent_fd);
    }
    free(scratch->path);
    *scratch = (struct cv_scratch)CV_SCRATCH_INIT;
}

void cv_scratch_close(struct cv_scratch *scratch)
{
    struct cv_error error;
    if (scratch->fd >= 0 && remove_tree(scratch->parent_fd, scratch->name, &error) < 0) {
        cv_log(CV_LOG_DEBUG, "%s", error.message);
    }
    cv_scratch_abandon(scratch);
}

int cv_scratch_make(struct cv_scratch *scratch, const char *name, char **ret_path,
                    struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    int r = cv_format(&path, error, "%s/%s", scratch->path, name);
    if (r < 0) {
        return r;
    }
    r = remove_tree(scratch->fd, name, error);
    if (r < 0) {
        return r;
    }
    if (mkdirat(scratch->fd, name, 0700) != 0) {
        return cv_fail_errno(error, errno, "cannot make the scratch directory %s", path);
    }
    *ret_path = cv_take(path);
    return 0;
}

int cv_scratch_remove(struct cv_scratch *scratch, const char *name, struct cv_error *error)
{
    return remove_tree(scratch->fd, name, error);
}
