#include "common/base/base.h"

#include <limits.h>
#include <string.h>

bool cv_sibling_program(const char *relative, char *path, size_t size)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length <= 0) {
        return false;
    }
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash) {
        return false;
    }
    *slash = '\0';
    int written = snprintf(path, size, "%s/%s", self, relative);
    return written > 0 && (size_t)written < size && access(path, X_OK) == 0;
}
