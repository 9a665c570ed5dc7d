/* What a stage may see of this machine, for the layers that decide about files. */
#include "common/worker/sandbox.h"
#include "common/worker/sanitizer.h"

#include <string.h>

/* What the libraries of a stage read while it works. */
static const char *const readable[] = {
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache", /* a library that is loaded late */
    "/etc/fonts",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
    /* Not all of /proc/self: by the number of a file that may be read it could be opened to be written. */
    "/proc/self/maps",
    "/proc/self/status",
#if CV_UNDER_SANITIZER
    "/proc/self",
#endif
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
};
/* … and of one that resolves names and checks certificates. */
static const char *const readable_with_network[] = {
    "/etc/resolv.conf", "/etc/hosts",           "/etc/nsswitch.conf",   "/etc/host.conf",
    "/etc/gai.conf",    "/etc/services",        "/etc/protocols",       "/etc/ssl",
    "/etc/pki",         "/etc/ca-certificates", "/run/systemd/resolve",
};
/* Not /dev/zero: mapped, it is memory that is counted to nobody. */
static const char *const usable_devices[] = {"/dev/null", "/dev/random", "/dev/urandom"};

static int visit_all(const char *const *paths, size_t count, enum cv_sandbox_use use,
                     cv_sandbox_visit *visit, void *opaque)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        r = visit(opaque, paths[i], use);
    }
    return r;
}

/* Directories named in a list "A:B:C" from the environment. */
static int visit_listed(const char *variable, cv_sandbox_visit *visit, void *opaque)
{
    cv_auto_free char *list = strdup(cv_env(variable, ""));
    if (!list) {
        return CV_SANDBOX_NO_MEMORY;
    }
    int r = 0;
    char *rest = NULL;
    for (char *path = strtok_r(list, ":", &rest); r == 0 && path;
         path = strtok_r(NULL, ":", &rest)) {
        r = visit(opaque, path, CV_SANDBOX_READ);
    }
    return r;
}

int cv_sandbox_each_path(const struct cv_sandbox *sandbox, cv_sandbox_visit *visit, void *opaque)
{
    int r = visit_all(readable, CV_COUNT(readable), CV_SANDBOX_READ, visit, opaque);
    if (r == 0 && (sandbox->families & CV_SANDBOX_INET)) {
        r = visit_all(readable_with_network, CV_COUNT(readable_with_network), CV_SANDBOX_READ,
                      visit, opaque);
    }
    r = r ? r
          : visit_all(usable_devices, CV_COUNT(usable_devices), CV_SANDBOX_DEVICE, visit, opaque);
    r = r ? r : visit_listed("TESSDATA_PREFIX", visit, opaque);
    r = r ? r : visit_listed("CORTANA_READ_PATHS", visit, opaque);
    return r ? r : visit(opaque, sandbox->scratch, CV_SANDBOX_WRITE);
}
