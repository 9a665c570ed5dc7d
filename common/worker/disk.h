/* Tells how full the scratch directory's disk is. */
#pragma once

#include "common/base/base.h"

/* Warning, critical and emergency start at 85, 90 and 95 % full. In an emergency no job is claimed.
 * report_disk() in SQL has the same limits. */
enum cv_disk_level { CV_DISK_OK, CV_DISK_WARNING, CV_DISK_CRITICAL, CV_DISK_EMERGENCY };

struct cv_disk {
    int64_t total_bytes;
    int64_t free_bytes; /* free for this user */
    enum cv_disk_level level;
};

/* Examines the file system that contains `path`. */
CV_MUST_CHECK int cv_disk_look(const char *path, struct cv_disk *ret_disk, struct cv_error *error);

/* "ok", "warning", "critical", "emergency". */
const char *cv_disk_level_name(enum cv_disk_level level);
