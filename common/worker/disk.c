#include "common/worker/disk.h"

#include <sys/statvfs.h>

enum { WARNING_PERCENT = 85, CRITICAL_PERCENT = 90, EMERGENCY_PERCENT = 95 };

static enum cv_disk_level level_of(int64_t total_bytes, int64_t free_bytes)
{
    double used = total_bytes > 0 ? 100 * (1 - (double)free_bytes / (double)total_bytes) : 0;
    return used >= EMERGENCY_PERCENT  ? CV_DISK_EMERGENCY
           : used >= CRITICAL_PERCENT ? CV_DISK_CRITICAL
           : used >= WARNING_PERCENT  ? CV_DISK_WARNING
                                      : CV_DISK_OK;
}

const char *cv_disk_level_name(enum cv_disk_level level)
{
    static const char *const names[] = {"ok", "warning", "critical", "emergency"};
    return names[level];
}

int cv_disk_look(const char *path, struct cv_disk *ret_disk, struct cv_error *error)
{
    struct statvfs status;
    if (statvfs(path, &status) != 0) {
        return cv_fail_errno(error, errno, "cannot see how full %s is", path);
    }
    /* Blocks reserved for root count as used, because a stage is not root. */
    int64_t total = (int64_t)status.f_blocks * (int64_t)status.f_frsize;
    int64_t free_bytes = (int64_t)status.f_bavail * (int64_t)status.f_frsize;
    *ret_disk = (struct cv_disk){total, free_bytes, level_of(total, free_bytes)};
    return 0;
}
