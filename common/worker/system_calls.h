/* The sandbox's filter of system calls. */
#pragma once

#include "common/worker/sandbox.h"

/* Restricts the calling thread, and threads that it starts, to the listed system calls; needs
 * no_new_privs. Adds CV_SANDBOX_CALLS to *layers if the kernel supports filters. */
CV_MUST_CHECK int cv_system_calls_enter(const struct cv_sandbox *sandbox, unsigned *layers,
                                        struct cv_error *error);
