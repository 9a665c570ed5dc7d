/* How full the disk below the scratch directory is. */
#pragma once

#include "common/base/base.h"

/* From 85, 90 and 95 % on; in an emergency nothing new is claimed. report_disk() in SQL draws the
 * same lines. */
enum cv_disk_level { CV_DISK_OK, CV_DISK_WARNING, CV_DISK_CRITICAL, CV_DISK_EMERGENCY };

struct cv_disk {
    int64_t total_bytes;
    int64_t free_bytes; /* for this user */
    enum cv_disk_level level;
};

/* Of the file system that `path` is on. */
CV_MUST_CHECK int cv_disk_look(const char *path, struct cv_disk *ret_disk, struct cv_error *error);

/* "ok", "warning", "critical", "emergency". */
const char *cv_disk_level_name(enum cv_disk_level level);
