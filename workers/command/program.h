/* Runs one program. */
#pragma once

#include "common/base/base.h"

#include <sys/types.h>

struct program_params {
    const char *program; /* an absolute path; no shell reads it, PATH is not searched */
    char *const *argv;
    char *const *environment;
    const char *directory;
    int64_t time_limit_ms;
    size_t output_max; /* bytes */
    struct cv_cancel *cancel;
};

/* How a program ended; written on success and on failure. */
struct program_end {
    pid_t pid;       /* 0: it was not started */
    bool has_status; /* the program has ended */
    int status;      /* of wait(2) */
};

/* Runs a program until it ends, with empty standard input, standard output collected in `output`,
 * and standard error inherited. The program is killed when this process dies. When canceled or
 * past its time limit, it gets SIGTERM and, three seconds later, SIGKILL. 0 when it ended by
 * itself; CV_ERROR_CANCELED; CV_ERROR_TIMEOUT; CV_ERROR_LIMIT_EXCEEDED (more output than allowed);
 * CV_ERROR_INVALID_PAYLOAD when it cannot be started. `end` is always written. */
CV_MUST_CHECK int program_run(const struct program_params *params, struct cv_buffer *output,
                              struct program_end *end, struct cv_error *error);
