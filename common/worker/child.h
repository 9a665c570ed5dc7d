/* One stage process as its supervisor sees it: how it is started, and the bytes that go to and fro.
 * Nothing here waits. */
#pragma once

#include "common/broker/broker.h"
#include "common/worker/groups.h"
#include "common/worker/worker.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/types.h>

enum {
    CV_OUTPUT_MAX = 64 << 20, /* a result: hours of OCR are tens of MiB */
    CV_TAIL_MAX = 8 << 10,    /* what job_attempts keeps of each stream */
    CV_LINE_MAX = 16 << 10,   /* a longer line of a stage's log comes in pieces */
    CV_LINES_MAX = 10000,     /* lines of one attempt that are passed on; a decoder may complain of
                                * each frame of a broken file */
    CV_LOG_BYTES_MAX = 4 << 20,   /* and of bytes */
    CV_WARNINGS_MAX = 10,         /* of one attempt become events of its timeline, the first ones */
    CV_PROGRESS_MAX = 1000 * 1000 /* reports of one attempt: five a second for two days */
};

/* Lines out of a stream; a line longer than CV_LINE_MAX comes in pieces. */
struct cv_lines {
    char *data;
    size_t length;
};

/* A job that gets on may take this many times its time limit: an hour's clip at a quarter of its
 * speed, a day's recording. */
enum { CV_TIME_LIMITS_MAX = 24 };

/* What a stage said last. */
struct cv_progress {
    double fraction;
    char doing[64];
    bool is_new;
};

struct cv_child {
    pid_t pid; /* 0: none */
    struct cv_group group;
    int64_t memory_bytes; /* the private memory that it may have */
    int input_fd;         /* ours ends of the pipes; -1 once closed */
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
    bool log_is_full; /* nothing more is passed on */
    json_t *warnings; /* list of {level, message}, without secrets; NULL: none yet */
    int progress_count;
    struct cv_lines progress_lines;
    struct cv_progress progress;
    bool exited;
    int64_t exited_at; /* monotonic */
    int status;        /* as wait4 gives it */
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
    int64_t companion_ms;     /* how long to wait for the stage's companion; 0: there is none */
    const int *kept;          /* both ends of the socket from part to part; NULL: there is none */
    int slots;                /* stages that share this process' bounds */
    struct cv_groups *groups; /* that the stage's is made of; none for one that runs programs */
    const struct cv_broker_line *line; /* to the stage's broker; the ends are not closed here */
};

/* Starts the stage: this very program with --once, in a session of its own that dies with this
 * process, with the stage's limits and no more of the environment than it needs. `child` is
 * initialised. */
CV_MUST_CHECK int cv_child_start(struct cv_child *child, const struct cv_child_params *params,
                                 struct cv_error *error);

/* The largest file that a stage may write, and the largest object. */
int64_t cv_stage_file_bytes(const struct cv_stage *stage);

/* Kills what is left of the process, reaps it, closes and frees everything. */
void cv_child_deinit(struct cv_child *child);

/* To the stage and whatever it has started. */
void cv_child_signal(const struct cv_child *child, int number);

/* Fills up to CV_CHILD_POLLS entries with what to wait for; returns how many. */
enum { CV_CHILD_POLLS = 4 };
size_t cv_child_poll(const struct cv_child *child, struct pollfd polls[CV_CHILD_POLLS]);

/* Moves what can be moved now, in and out; call it when poll says so or after the exit. Lines of
 * the stage's log go to this process' standard error. */
void cv_child_pump(struct cv_child *child);

/* Takes note of the exit; true once it has happened. */
bool cv_child_reap(struct cv_child *child);

/* Stops listening: what holds the pipes open after the exit is not a stage of ours. */
void cv_child_hang_up(struct cv_child *child);

/* Exited, and all that it has written has been read. */
bool cv_child_is_over(const struct cv_child *child);
