/* What the command line of a worker said. */
#pragma once

#include "common/worker/worker.h"

/* See cv_worker_main. */
struct cv_worker_options {
    bool once;
    const char *scratch;  /* --once: a directory made by the supervisor; NULL: make one */
    int threads;          /* --once: 0 = the CPUs this process may use */
    int progress_fd;      /* --once: -1 = no supervisor listens */
    bool has_broker;      /* --once: a supervisor has set the descriptors below */
    int64_t companion_ms; /* --once: how long to wait for the companion; 0: there is none */
    bool has_kept;        /* --once: the same of the descriptors from part to part */
    bool is_broker_host;  /* the process that forks the supervisor's brokers */
    int slots;
    int64_t poll_ms;
    bool listen;               /* false behind a pooler that takes LISTEN and tells nothing */
    const char *probe_address; /* "" or NULL: nobody may ask how it does */
    bool shows_fleet;          /* /metrics shows the whole fleet, too */
};
