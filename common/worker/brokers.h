/* The supervisor's side of the brokers: the host process that forks one for each job. */
#pragma once

#include "common/broker/broker.h"
#include "common/worker/scratch.h"
#include "common/worker/worker.h"

struct cv_brokers {
    pid_t pid; /* of the host; 0: none */
    int fd;    /* socket to the host; -1: none */
};

#define CV_BROKERS_INIT \
    {                   \
        0, -1           \
    }

/* The descriptor number of the socket in the host process. */
enum { CV_BROKER_HOST_FD = 3 };

/* Starts the host: this program with --broker-host. */
CV_MUST_CHECK int cv_brokers_start(struct cv_brokers *brokers, const struct cv_stage *stage,
                                   struct cv_error *error);
void cv_brokers_stop(struct cv_brokers *brokers);

/* Has the host fork a broker for the job, which may do what the stage's grants allow; a host that
 * was killed is started again. `line` gets the stage's ends. */
CV_MUST_CHECK int cv_brokers_connect(struct cv_brokers *brokers, const struct cv_stage *stage,
                                     const struct cv_job *job, const char *worker_id,
                                     const char *scratch, const struct cv_scratch_usage *most,
                                     struct cv_broker_line *line, struct cv_error *error);
