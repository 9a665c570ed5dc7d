/* A stage's process: reads a payload, enters the sandbox, runs the stage once, and prints one JSON
 * object. */
#pragma once

#include "common/worker/options.h"

/* The descriptors of a stage that a supervisor has started: the two sockets to its broker. */
enum { CV_STAGE_BROKER_FD = 4, CV_STAGE_CANCEL_FD };

/* The parameters of one run of a stage. */
struct cv_stage_start {
    const struct cv_stage *stage;
    const struct cv_worker_options *options;
    const char *scratch;
    json_t *payload; /* NULL: read it from standard input */
    int broker_fd, cancel_fd;
};

/* Runs the stage and prints its result, or its error; returns the exit status. */
int cv_stage_process(const struct cv_stage_start *start);

/* Reads a JSON object from standard input. */
CV_MUST_CHECK int cv_stage_read_payload(json_t **ret_payload, struct cv_error *error);

/* Converts the error to the object that the supervisor reads, and returns the exit status for it.
 * *ret_object is NULL if memory is lacking. */
enum cv_exit cv_stage_failure(struct cv_error *error, json_t **ret_object);

/* Writes the object and a line feed, and closes `fd`; -1 with errno on failure. */
int cv_stage_print(int fd, const json_t *object);
