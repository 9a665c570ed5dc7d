#include "cli/local/file.h"

#include <fcntl.h>
#include <string.h>

int cli_replace_file(const char *path, const char *text, struct cv_error *error)
{
    cv_auto_free char *fresh = NULL;
    CV_TRY(cv_format(&fresh, error, "%s.new", path));
    (void)unlink(fresh);
    cv_auto_fd int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    CV_TRY_ERRNO(fd >= 0 && cv_write_all(fd, text, strlen(text)) == 0 && fsync(fd) == 0 &&
                     rename(fresh, path) == 0,
                 error, "write %s", path);
    return 0;
}
