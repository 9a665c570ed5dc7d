/* What a stage process may no longer do once it meets its input. */
#pragma once

#include "common/base/base.h"

struct cv_sandbox {
    const char *scratch;         /* may be written */
    const char *store_directory; /* may be written; NULL: none */
    const char *const *readable; /* besides the system's directories */
    size_t readable_count;
    bool network; /* sockets are needed (a remote store, a database) */
};

enum cv_sandbox_parts {
    CV_SANDBOX_FILES = 1,  /* Landlock is in force */
    CV_SANDBOX_SYSTEM = 2, /* the system call filter is in force */
};

/* Shuts the calling process in, for good and for all threads it will start; call it before there
 * are any. Kernels that lack a part go without it: *ret_parts says what is in force. Off with
 * CORTANA_SANDBOX=off, for debuggers. */
CV_MUST_CHECK int cv_sandbox_enter(const struct cv_sandbox *sandbox, unsigned *ret_parts,
                                   struct cv_error *error);
