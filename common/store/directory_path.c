#include "common/store/directory.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

enum { DIRECTORY_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

size_t cv_directory_parent_length(const char *key)
{
    const char *slash = strrchr(key, '/');
    return slash ? (size_t)(slash - key) : 0;
}

int cv_directory_check_key(const char *key, struct cv_error *error)
{
    size_t first = strcspn(key, "/");
    if (first == strlen(CV_DIRECTORY_INCOMING) && strncmp(key, CV_DIRECTORY_INCOMING, first) == 0) {
        return cv_fail(error, CV_ERROR_INVALID_KEY,
                       "object key starts with " CV_DIRECTORY_INCOMING
                       ", which the directory store keeps for itself");
    }
    for (const char *segment = key;;) {
        size_t length = strcspn(segment, "/");
        if (length > NAME_MAX) {
            return cv_fail(error, CV_ERROR_INVALID_KEY,
                           "object key has a segment of %zu bytes; a file name has at most %d",
                           length, NAME_MAX);
        }
        if (segment[length] == '\0') {
            return 0;
        }
        segment += length + 1;
    }
}

static int reopen_root(const struct cv_directory_store *directory, int *ret_fd,
                       struct cv_error *error)
{
    int fd = fcntl(directory->root, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return cv_fail_errno(error, errno, "open the store %s", directory->path);
    }
    *ret_fd = fd;
    return 0;
}

/* One step down; makes the directory when `make` and it is missing. */
static int descend(int parent, const char *name, bool make, const char *key, int *ret_fd,
                   struct cv_error *error)
{
    int fd = openat(parent, name, DIRECTORY_FLAGS);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(parent, name, 0777) == 0) {
            if (fsync(parent)) {
                return cv_fail_errno(error, errno, "write the directory of %s to disk", key);
            }
        } else if (errno == ENOENT) {
            return CV_STORE_NOT_FOUND;
        } else if (errno != EEXIST) {
            return cv_fail_errno(error, errno, "make the directory of %s", key);
        }
        fd = openat(parent, name, DIRECTORY_FLAGS);
    }
    if (fd >= 0) {
        *ret_fd = fd;
        return 0;
    }
    bool in_the_way = errno == ENOTDIR || errno == ELOOP;
    if (in_the_way && make) {
        return cv_fail(error, CV_ERROR_INVALID_KEY,
                       "object key %s: '%s' on its way is an object or a link, no directory", key,
                       name);
    }
    if (in_the_way || errno == ENOENT) {
        return CV_STORE_NOT_FOUND;
    }
    return cv_fail_errno(error, errno, "open the directory of %s", key);
}

static int walk(const struct cv_directory_store *directory, const char *key, size_t length,
                bool make, int *ret_fd, struct cv_error *error)
{
    cv_auto_fd int fd = -1;
    int result = reopen_root(directory, &fd, error);
    for (size_t at = 0; result == 0 && at < length;) {
        size_t segment = strcspn(key + at, "/");
        if (segment > length - at) {
            segment = length - at;
        }
        char name[NAME_MAX + 1];
        if (segment > NAME_MAX) {
            return CV_STORE_NOT_FOUND;
        }
        memcpy(name, key + at, segment);
        name[segment] = '\0';
        int next = -1;
        result = descend(fd, name, make, key, &next, error);
        if (result == 0) {
            close(fd);
            fd = next;
        }
        at += segment + 1;
    }
    if (result == 0) {
        *ret_fd = cv_take_fd(&fd);
    }
    return result;
}

int cv_directory_walk(const struct cv_directory_store *directory, const char *key, size_t length,
                      int *ret_fd, struct cv_error *error)
{
    return walk(directory, key, length, false, ret_fd, error);
}

int cv_directory_make(const struct cv_directory_store *directory, const char *key, size_t length,
                      int *ret_fd, struct cv_error *error)
{
    return walk(directory, key, length, true, ret_fd, error);
}
