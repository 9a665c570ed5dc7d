/* One program, from its start to its end. */
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

/* Known of a program once it was started, however that went on. */
struct program_end {
    pid_t pid;       /* 0: it was not started */
    bool has_status; /* it has ended */
    int status;      /* of wait(2) */
};

/* Runs it to its end with standard input empty, standard output collected in `output` and standard
 * error as ours. It dies with us. Asked to stop, or past its time, it gets SIGTERM and three seconds.
 * 0 when it ended by itself; CV_ERROR_CANCELED, CV_ERROR_TIMEOUT, CV_ERROR_LIMIT_EXCEEDED (more
 * output than allowed); CV_ERROR_INVALID_PAYLOAD when it cannot be started. `end` is written in any case. */
CV_MUST_CHECK int program_run(const struct program_params *params, struct cv_buffer *output,
                              struct program_end *end, struct cv_error *error);
