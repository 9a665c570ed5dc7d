#include "common/base/base.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRECTORY_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* Opens one directory; makes it first, durably, if `make` and it is missing. */
static int descend(int parent, const char *name, bool make)
{
    int fd = openat(parent, name, DIRECTORY_FLAGS);
    if (fd >= 0 || errno != ENOENT || !make) {
        return fd;
    }
    if (mkdirat(parent, name, 0777) == 0 ? fsync(parent) != 0 : errno != EEXIST) {
        return -1;
    }
    return openat(parent, name, DIRECTORY_FLAGS);
}

/* openat2 would need one call, but is not available under systemd's RestrictSUIDSGID=. */
int cv_open_directory_below(int directory, const char *path, size_t length, bool make)
{
    int fd = openat(directory, ".", DIRECTORY_FLAGS);
    for (size_t at = 0; fd >= 0 && at < length;) {
        char name[NAME_MAX + 1];
        size_t size = strcspn(path + at, "/");
        size = size < length - at ? size : length - at;
        int parent = fd;
        fd = -1;
        if (size > NAME_MAX || (size == 2 && strncmp(path + at, "..", 2) == 0)) {
            errno = ENOENT;
        } else {
            memcpy(name, path + at, size);
            name[size] = '\0';
            fd = descend(parent, name, make);
        }
        int error_number = errno;
        close(parent);
        errno = error_number;
        at += size + 1;
    }
    return fd;
}

int cv_open_file_below(int directory, const char *path)
{
    const char *slash = strrchr(path, '/');
    cv_auto_fd int parent =
        cv_open_directory_below(directory, path, slash ? (size_t)(slash - path) : 0, false);
    return parent < 0 ? -1
                      : openat(parent, slash ? slash + 1 : path,
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}
