/* The sandbox's layer of system calls. */
#pragma once

#include "common/worker/sandbox.h"

/* Leaves the calling thread, and those it starts, the calls of the list; needs no_new_privs. Adds
 * CV_SANDBOX_CALLS to *layers where the kernel has filters. */
CV_MUST_CHECK int cv_system_calls_enter(const struct cv_sandbox *sandbox, unsigned *layers,
                                        struct cv_error *error);
