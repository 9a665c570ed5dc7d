/* The inside of a stage process. */
#pragma once

#include "common/broker/broker.h"
#include "common/worker/worker.h"

/* What the command line said; see cv_worker_main. */
struct cv_worker_options {
    bool once;
    const char *scratch; /* --once: a directory made by the supervisor; NULL: make one */
    int threads;         /* --once: 0 = the CPUs this process may use */
    int progress_fd;     /* --once: -1 = no supervisor listens */
    bool has_broker;     /* --once: a supervisor has set the descriptors below */
    bool is_broker_host; /* the process that forks the supervisor's brokers */
    int slots;
    int64_t poll_ms;
    bool listen;               /* false behind a pooler that takes LISTEN and tells nothing */
    const char *probe_address; /* "": nobody may ask how it does */
    bool shows_fleet;          /* /metrics shows the whole fleet, too */
};

/* Where a stage finds its broker's two sockets. */
enum { CV_STAGE_BROKER_FD = 4, CV_STAGE_CANCEL_FD = 5 };

struct cv_stage_context {
    const struct cv_stage *stage;
    struct cv_store *store;
    struct cv_uploads *uploads; /* NULL: none yet */
    struct cv_db *db;
    struct cv_cancel *cancel;
    const char *scratch;
    int threads;
    json_t *program;   /* {pid, exit_code, output} of a program that was run; NULL: none */
    json_t *artifacts; /* list of {kind, key, size, content_type, checksum} */
    int progress_fd;
    int64_t progress_at; /* monotonic; when the last report was written */
    char progress_doing[64];
};

/* Reports progress at most this often, so that a stage may call for every frame. */
enum { CV_PROGRESS_INTERVAL_MS = 200 };

/* CPUs that affinity and cgroup allow this process; at least 1. */
int cv_worker_cpus(void);

/* Runs the stage once: payload on stdin, one JSON object on stdout; returns the exit status. */
int cv_worker_once(const struct cv_stage *stage, const struct cv_worker_options *options);
