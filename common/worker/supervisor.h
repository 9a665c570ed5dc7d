/* The supervisor's state: slots, each with at most one job and its stage process. Only the loop's
 * thread uses it; the loop talks to the keeper only by the functions in keeper.h. */
#pragma once

#include "common/base/base.h"
#include "common/probe/probe.h"
#include "common/queue/queue.h"
#include "common/store/store.h"
#include "common/worker/brokers.h"
#include "common/worker/child.h"
#include "common/worker/job_logs.h"
#include "common/worker/keeper.h"
#include "common/worker/options.h"
#include "common/worker/scratch.h"

/* The outcome of a stage process: a result, or a failure, read from its output and exit status. */

struct cv_verdict_result {
    json_t *result;    /* an object; NULL for a failure */
    json_t *artifacts; /* a checked list; NULL for a failure */
    json_t *program; /* the stage's report about a program that it has run, unchecked; NULL: none */
    struct cv_error failure;
};

void cv_verdict_deinit(struct cv_verdict_result *verdict);

/* Reads the output and exit status of a child that is over; `grants` are the grants of its job
 * (from cv_grants_make). Trusts nothing that cannot be checked: output that breaks the protocol is
 * CV_ERROR_STAGE_PROTOCOL, and so is an artifact that no grant covers. Never fails itself. */
void cv_verdict_read(const struct cv_child *child, const json_t *grants,
                     struct cv_verdict_result *verdict);

/* Returns whether a worker can work at all. A thread probes its store (cv_store_probe) and its
 * installation (the stage's check) at the start, after a failed attempt that gives reason to doubt
 * them, and repeatedly while one refuses. The supervisor's loop asks for probes and reads their
 * results without waiting. Called by the loop's thread. */

enum { CV_WATCH_TROUBLE_SIZE = 512 };

struct cv_watch;

struct cv_watch_params {
    struct cv_store *store; /* ownership passes, even on failure; NULL: the stage has no store */
    enum cv_store_access access;
    int (*check)(struct cv_error *error); /* struct cv_stage's check; NULL: there is none */
    int64_t again_ms;                     /* between two probes while one refuses */
    int news_fd;                          /* borrowed; signalled when there is news */
};

struct cv_watch_news {
    uint64_t answered; /* questions up to this number are answered */
    int64_t
        refused_at; /* when the last failed probe ended, monotonic; INT64_MIN: none has failed */
    bool is_installation;                /* the installation refuses, not the store */
    char trouble[CV_WATCH_TROUBLE_SIZE]; /* why the worker cannot work; "": it can */
};

/* Aborts a probe under way, and ends the thread. NULL is allowed. */
void cv_watch_stop(struct cv_watch *watch);

enum {
    CV_STOPS_MAX = 3, /* stages in a row that report an unusable installation */
};

enum cv_slot_phase {
    CV_SLOT_FREE,
    CV_SLOT_RUNNING,  /* the stage process runs */
    CV_SLOT_SETTLING, /* it is over; the result must be reported */
};

/* Why a running stage was told to stop. The first reason is kept, but CV_STOP_LEASE_LOST replaces
 * all others. */
enum cv_stop_reason {
    CV_STOP_NONE,
    CV_STOP_TIME_LIMIT,
    CV_STOP_SCRATCH, /* its scratch directory has more than it may */
    CV_STOP_CANCELED,
    CV_STOP_SHUTDOWN,
    CV_STOP_NOT_STARTED, /* it was not started: this machine's fault, not the job's */
    CV_STOP_ENVIRONMENT, /* it failed because the store, a disk or the installation refuses */
    CV_STOP_LEASE_LOST,
};

/* The outcomes of a claimed job. */
enum cv_end {
    CV_END_DONE,
    CV_END_RETRY,
    CV_END_DEAD,
    CV_END_CANCELED,
    CV_END_RELEASED,
    CV_END_LOST,
};

struct cv_slot {
    enum cv_slot_phase phase;
    struct cv_job_list claimed; /* owns the one job */
    struct cv_job *job;
    struct cv_child child;
    char scratch_name[64];
    char *scratch_path;
    struct cv_scratch_usage most;            /* what it may write to scratch and to the store */
    char scratch_text[CV_SCRATCH_TEXT_SIZE]; /* with CV_STOP_SCRATCH: what exceeded the limit */
    enum cv_stop_reason stop;
    int64_t started_at; /* monotonic, as are all times here */
    int64_t limit_at;   /* end of its time, extended when it makes progress */
    double got_to;      /* progress when limit_at was last set */
    int64_t kill_at;    /* 0: not yet */
    struct cv_verdict_result verdict;
    json_t *program;   /* how a program ended that the stage has run; `report` borrows from it */
    bool awaits_room;  /* a disk was full; the attempt's scratch files are being removed */
    uint64_t question; /* number of the question to the watch about this failure; 0: none */
    struct cv_attempt_report report;
    int settle_tries;
    int64_t settle_at;
};

struct cv_supervisor {
    const struct cv_stage *stage;
    struct cv_worker_options options;
    int64_t lease_ms;
    int64_t heartbeat_ms;
    int64_t grace_ms;
    int64_t again_ms; /* between two probes of a store or installation that refuses */
    bool listen;
    char host[64];
    char worker_id[160];
    struct cv_scratch scratch;
    char *bucket; /* the store's name for task_artifacts */
    struct cv_watch *watch;
    struct cv_scratch_watch *scratch_watch;
    struct cv_scratch_usage scratch_most; /* limit for one job with any input */
    char *store_directory;                /* path of a directory store; else NULL */
    struct cv_groups groups;              /* of stages */
    struct cv_brokers brokers;            /* for stages that need the store */
    struct cv_keeper *keeper;
    struct cv_probe *probe; /* NULL: nobody listens */
    bool has_claimed;
    struct cv_slot *slots;
    int signal_fd;
    int news_fd;      /* keeper and watches signal it when they have news (cv_wakeup_signal) */
    struct cv_db *db; /* NULL until the first connection, and while it is given back */
    bool was_connected;
    bool can_keep;       /* the keeper is connected, too */
    int64_t give_way_at; /* when this connection is given back; 0: not planned */
    int64_t connect_at;
    int connect_tries;
    int64_t claim_at;    /* when to claim next */
    int64_t pause_until; /* no claims before this time: this machine could not start a stage */
    int64_t disk_at;     /* when to check the disks next */
    enum cv_disk_level scratch_level;
    enum cv_disk_level store_level; /* of the disk of a directory store */
    bool is_in_doubt;               /* store or installation refuse, or may refuse */
    bool refuses;                   /* and that has been logged */
    struct cv_job_logs *job_logs;   /* NULL: none are written */
    char environment_trouble[CV_WATCH_TROUBLE_SIZE]; /* why nothing may be claimed; "": it may */
    bool database_is_away;                           /* and that has been logged */
    int64_t database_full_at; /* when a change last met a full disk; 0: one was written since */
    char connect_trouble[CV_TROUBLE_SIZE];      /* why the last connection failed */
    int64_t schema_at;                          /* when to check the schema next */
    char schema_trouble[CV_SCHEMA_REASON_SIZE]; /* why nothing may be claimed; "": it may */
    bool is_draining;
    bool is_patient; /* an operator asked for draining: running jobs may finish */
    int64_t grace_end;
    int64_t give_up_at; /* draining: jobs not settled by then are left to their leases */
    int stops_in_a_row; /* see CV_STOPS_MAX */
    int exit_code;
};

/* The time before its end, ms, at which a lease counts as lost, because a report in the last moment
 * could arrive too late. */
int64_t cv_supervisor_margin(const struct cv_supervisor *supervisor);

/* Adds the slot's job to all log lines until the next call; NULL: no job. */
void cv_supervisor_log_job(const struct cv_supervisor *supervisor, const struct cv_slot *slot);

/* The same, with a job status other than "processing". */
void cv_supervisor_log_job_as(const struct cv_supervisor *supervisor, const struct cv_slot *slot,
                              const char *status);

/* Claims and runs jobs until a signal; returns the exit status. */
int cv_worker_supervise(const struct cv_stage *stage, const struct cv_worker_options *options);

/* Stops claiming; running stages get the grace period. */
void cv_supervisor_drain(struct cv_supervisor *supervisor, const char *why);
