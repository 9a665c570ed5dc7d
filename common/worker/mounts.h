#pragma once

#include "common/worker/sandbox.h"

/* Gives the calling process, in a mount namespace of its own, a root that holds what cv_sandbox_each_path names and nothing
 * else, and adds CV_SANDBOX_MOUNTS to *layers. Where the kernel or the machine does not allow it, and for stages with
 * sockets, nothing changes. */
void cv_mounts_enter(const struct cv_sandbox *sandbox, unsigned *layers);
