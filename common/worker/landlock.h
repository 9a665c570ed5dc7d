/* The sandbox's layer of files, and of TCP ports where the kernel has that. */
#pragma once

#include "common/worker/sandbox.h"

/* Confines the calling thread; needs no_new_privs. Adds CV_SANDBOX_FILES, CV_SANDBOX_PORTS to *layers as
 * the kernel has them. */
CV_MUST_CHECK int cv_landlock_enter(const struct cv_sandbox *sandbox, unsigned *layers,
                                    struct cv_error *error);
