/* The process of a stage: reads a payload, shuts itself in, runs the stage once, and prints one JSON object. */
#pragma once

#include "common/worker/options.h"

/* Where a stage that a supervisor has started finds its broker's two sockets, and the two ends of a socket from part to
 * part of a video (struct cv_meeting). */
enum { CV_STAGE_BROKER_FD = 4, CV_STAGE_CANCEL_FD, CV_STAGE_KEPT_FD, CV_STAGE_KEEP_FD };

/* What one run of a stage is given. */
struct cv_stage_start {
    const struct cv_stage *stage;
    const struct cv_worker_options *options;
    const char *scratch;
    json_t *payload; /* NULL: it is read from standard input */
    int broker_fd, cancel_fd;
    int kept_fd, keep_fd; /* -1: there are none */
};

/* Runs the stage and prints its result, or its error; returns the exit status. */
int cv_stage_process(const struct cv_stage_start *start);

/* Reads an object from standard input. */
CV_MUST_CHECK int cv_stage_read_payload(json_t **ret_payload, struct cv_error *error);

/* The error as the supervisor reads it, and the exit status that goes with it. *ret_object is NULL when there is no
 * memory for it. */
enum cv_exit cv_stage_failure(struct cv_error *error, json_t **ret_object);

/* Writes the object and a line's end, and closes `fd`; -1 when that failed, errno says why. */
int cv_stage_print(int fd, const json_t *object);
