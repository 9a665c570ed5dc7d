/* One stage process as seen by its supervisor: starts it, and exchanges bytes with it. No function
 * here waits. */
#pragma once

#include "common/broker/broker.h"
#include "common/worker/cgroup.h"
#include "common/worker/worker.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/types.h>

enum {
    CV_OUTPUT_MAX = 64 << 20, /* size of a result: hours of OCR are tens of MiB */
    CV_TAIL_MAX = 8 << 10,    /* bytes of each stream that job_attempts keeps */
    CV_LINE_MAX = 16 << 10,   /* longer log lines of a stage are split */
    CV_LINES_MAX =
        10000, /* log lines of one attempt that are passed on; a decoder may log every frame */
    CV_LOG_BYTES_MAX = 4 << 20,   /* bytes of log lines that are passed on */
    CV_WARNINGS_MAX = 10,         /* of one attempt that become events of its timeline */
    CV_PROGRESS_MAX = 1000 * 1000 /* reports of one attempt: five a second for two days */
};

/* Splits a stream into lines; a line longer than CV_LINE_MAX is returned in pieces. */
struct cv_lines {
    char *data;
    size_t length;
};

/* A job that makes progress may take this many times its time limit: that is enough for an hour's
 * clip at a quarter of real time, and for a recording of a day. */
enum { CV_TIME_LIMITS_MAX = 24 };

/* The last progress report of a stage. */
struct cv_progress {
    double fraction;
    char doing[64];
    bool is_new;
};

struct cv_child {
    pid_t pid; /* 0: none */
    struct cv_group group;
    int64_t memory_bytes; /* limit of its private memory */
    int input_fd;         /* our ends of the pipes; -1 once closed */
    int output_fd;
    int error_fd;
    int progress_fd;
    char *payload;
    size_t payload_length;
    size_t payload_written;
    struct cv_buffer output;
    bool output_too_large;
    struct cv_buffer error_tail;
    struct cv_lines error_lines;
    int lines_passed_on;
    int64_t bytes_passed_on;
    bool log_is_full; /* log lines are not passed on any more */
    json_t *warnings; /* list of {level, message}, secrets removed; NULL: none yet */
    int progress_count;
    struct cv_lines progress_lines;
    struct cv_progress progress;
    bool exited;
    int64_t exited_at; /* monotonic */
    int status;        /* as returned by wait4 */
    struct rusage usage;
};

#define CV_CHILD_INIT                                                                   \
    {                                                                                   \
        .input_fd = -1, .output_fd = -1, .error_fd = -1, .progress_fd = -1,             \
        .output = CV_BUFFER_INIT, .error_tail = CV_BUFFER_INIT, .group = CV_GROUP_INIT, \
    }

struct cv_child_params {
    const struct cv_stage *stage;
    const struct cv_job *job;
    const char *worker_id;
    const char *scratch;
    int threads;
    int slots; /* stages that share this process's limits */
    struct cv_groups
        *groups; /* where the stage's cgroup is made; not for a stage that runs programs */
    const struct cv_broker_line *line; /* the sockets to the stage's broker; not closed here */
};

/* Starts the stage: this program with --once, in a session of its own, with the stage's limits and
 * only the environment variables that it needs. The stage is killed if this process dies. `child`
 * is initialised. */
CV_MUST_CHECK int cv_child_start(struct cv_child *child, const struct cv_child_params *params,
                                 struct cv_error *error);

/* The size of the largest file, or object, that a stage may write. */
int64_t cv_stage_file_bytes(const struct cv_stage *stage);

/* Kills the process if it still runs, reaps it, closes and frees everything. */
void cv_child_deinit(struct cv_child *child);

/* Sends a signal to the stage and all processes that it has started. */
void cv_child_signal(const struct cv_child *child, int number);

/* Fills up to CV_CHILD_POLLS entries with what to wait for; returns how many. */
enum { CV_CHILD_POLLS = 4 };
size_t cv_child_poll(const struct cv_child *child, struct pollfd polls[CV_CHILD_POLLS]);

/* Reads and writes what is possible without waiting. Call it when poll reports an event and after
 * the exit. Log lines of the stage are written to this process's standard error. */
void cv_child_pump(struct cv_child *child);

/* Checks for the exit and records it; true once the stage has exited. */
bool cv_child_reap(struct cv_child *child);

/* Closes the pipes: a process that still holds them open after the exit is not the stage. */
void cv_child_hang_up(struct cv_child *child);

/* Whether the stage has exited and all its output has been read. */
bool cv_child_is_over(const struct cv_child *child);
