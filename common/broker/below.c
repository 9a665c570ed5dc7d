#include "common/broker/below.h"

#include "common/base/base.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* openat2 would need one call, but is not available under systemd's RestrictSUIDSGID=. */
int cv_open_below(int directory, const char *path)
{
    cv_auto_fd int parent = -1;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(path, '/')) {
        char part[NAME_MAX + 1];
        int length = (int)(slash - path);
        if (length > NAME_MAX || (length == 2 && strncmp(path, "..", 2) == 0)) {
            return -1;
        }
        (void)snprintf(part, sizeof(part), "%.*s", length, path);
        int below = openat(parent >= 0 ? parent : directory, part,
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0) {
            return -1;
        }
        if (parent >= 0) {
            close(parent);
        }
        parent = below;
        path = slash + 1;
    }
    return openat(parent >= 0 ? parent : directory, path,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}
