#include "common/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_file(void *opaque, int64_t offset, void *data, size_t length, size_t *ret_read,
                     struct cv_error *error)
{
    ssize_t got = pread(*(const int *)opaque, data, length, (off_t)offset);
    if (got < 0) {
        return cv_fail_errno(error, errno, "cannot read an opened file");
    }
    *ret_read = (size_t)got;
    return 0;
}

int cv_file_source_open(const char *path, int *ret_fd, struct cv_byte_source *ret_source,
                        struct cv_error *error)
{
    struct stat status;
    cv_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        return cv_fail_errno(error, errno, "cannot open %s", path);
    }
    *ret_fd = cv_take_fd(&fd);
    *ret_source = (struct cv_byte_source){ret_fd, status.st_size, read_file};
    return 0;
}
