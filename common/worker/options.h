/* The command line options of a worker. */
#pragma once

#include "common/worker/worker.h"

/* See cv_worker_main. */
struct cv_worker_options {
    bool once;
    bool overwrites;     /* --once: also objects of a video of an installation */
    const char *scratch; /* --once: a directory made by the supervisor; NULL: make one */
    int threads;         /* --once: 0 = the CPUs this process may use */
    int progress_fd;     /* --once: -1 = there is no supervisor */
    bool has_broker;     /* --once: a supervisor has set the broker's descriptors */
    bool is_broker_host; /* this process forks the supervisor's brokers */
    int slots;
    int64_t poll_ms;
    bool listen;               /* false behind a pooler that accepts LISTEN but delivers nothing */
    const char *probe_address; /* address of /healthz and /metrics; "" or NULL: none */
    bool shows_fleet;          /* /metrics includes the whole fleet */
};
