#include "common/base/base.h"

#include <sys/statvfs.h>

enum { RESERVE_SHARE = 20 }; /* the reserve is one part of so many: 5 % */

/* Sixteen gibibytes are what eight jobs write that use their constant allowance of 2 GiB each
 * (cv_scratch_most_for). The share alone would leave 200 GB of a disk of 4 TB unused. */
static const int64_t RESERVE_BYTES = INT64_C(16) << 30;

int64_t cv_disk_reserve(int64_t total_bytes)
{
    int64_t share = total_bytes / RESERVE_SHARE;
    return share < RESERVE_BYTES ? share : RESERVE_BYTES;
}

enum cv_disk_level cv_disk_level_of(int64_t total_bytes, int64_t free_bytes)
{
    int64_t reserve = cv_disk_reserve(total_bytes);
    return total_bytes <= 0            ? CV_DISK_OK
           : free_bytes <= reserve     ? CV_DISK_EMERGENCY
           : free_bytes <= 2 * reserve ? CV_DISK_CRITICAL
           : free_bytes <= 3 * reserve ? CV_DISK_WARNING
                                       : CV_DISK_OK;
}

const char *cv_disk_level_name(enum cv_disk_level level)
{
    static const char *const names[] = {"ok", "warning", "critical", "emergency"};
    return names[level];
}

int cv_disk_read(const char *path, struct cv_disk *ret_disk, struct cv_error *error)
{
    struct statvfs status;
    CV_TRY_ERRNO(statvfs(path, &status) == 0, error, "cannot read how full the disk of %s is",
                 path);
    /* Blocks reserved for root count as used, because a stage is not root. */
    int64_t total = (int64_t)status.f_blocks * (int64_t)status.f_frsize;
    int64_t free_bytes = (int64_t)status.f_bavail * (int64_t)status.f_frsize;
    *ret_disk = (struct cv_disk){total, free_bytes, cv_disk_level_of(total, free_bytes)};
    return 0;
}
