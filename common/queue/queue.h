/* The job queue over PostgreSQL. The rules (states, leases, retries, fencing, history) live in SQL
 * functions (sql/migrations), so that any language can use the queue; this is their face in C.
 *
 * A claim hands out a lease: `token` is the fencing token, which only grows. Every call that
 * settles, renews or reports names job and token, and is refused with CV_LEASE_LOST once another
 * claim has taken the job: then the worker aborts and drops its output.
 *
 * All functions use the connection they are given and no other state; thread rules are those of
 * db.h.
 */
#pragma once

#include "common/base/base.h"
#include "common/db/db.h"

#include <jansson.h>

/* Named outcomes. */
enum cv_queue_outcome {
    CV_QUEUE_OK = 0,
    CV_LEASE_LOST = 1,      /* the token is not the job's any more: abort, drop the output */
    CV_QUEUE_EMPTY = 2,     /* nothing to claim */
    CV_QUEUE_DUPLICATE = 3, /* enqueue: such a job is queued or processing; its id is returned */
    CV_QUEUE_CANCEL = 4,    /* the lease holds, but somebody wants the job stopped */
    CV_QUEUE_NO_SUCH_JOB = 5,
    CV_QUEUE_WRONG_STATE = 6, /* cancel or retry of a job whose state forbids it */
    CV_QUEUE_DRAIN = 7,       /* report_worker: somebody wants this worker to finish and go */
    CV_QUEUE_RETRY = 9,       /* fail: the job will be tried again */
    CV_QUEUE_SCHEMA = 8,      /* check_schema: the database is not of this program's kind */
};

enum { CV_UUID_SIZE = 37 };

/* One claimed job. Owns its members. */
struct cv_job {
    char id[CV_UUID_SIZE];
    char video_id[CV_UUID_SIZE];       /* "" when the job has no video */
    char correlation_id[CV_UUID_SIZE]; /* handed on to successors */
    char *job_type;
    json_t *payload; /* JSON null when it could not be read */
    int64_t token;
    int64_t sequence;  /* the run's place in the global order */
    int64_t waited_ms; /* from when it could be claimed to the claim */
    int priority;      /* 0..10 */
    int attempt;       /* 1 for the first */
    int retry_count;
    int64_t time_limit_ms;
};

struct cv_job_list {
    struct cv_job *jobs;
    size_t count;
};

void cv_job_list_deinit(struct cv_job_list *list);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_job_list, cv_job_list_deinit)

/* ---- enqueue --------------------------------------------------------------------------------- */

struct cv_enqueue_params {
    const char *job_type;
    const char *video_id;       /* NULL: none */
    const json_t *payload;      /* an object */
    int priority;               /* 0..10; -1: the type's base priority */
    const char *scheduled_for;  /* a timestamp PostgreSQL reads; NULL: now */
    const char *dedupe_key;     /* NULL: none */
    const char *correlation_id; /* NULL: a new one */
    int64_t sequence;           /* 0: the end of the global order */
};

/* Part of the caller's transaction when one is open. CV_QUEUE_DUPLICATE is an outcome. */
CV_MUST_CHECK int cv_queue_enqueue(struct cv_db *db, const struct cv_enqueue_params *params,
                                   char ret_job_id[CV_UUID_SIZE], struct cv_error *error);

/* Gives `payload` to the next stage, inside the transaction that ends `job`. In a run it waits for
 * the steps of that type behind the job's; a job on its own enqueues the next at once, with the
 * same video, run order, priority and correlation id, where one that waits or runs already counts
 * as success. CV_LEASE_LOST is an outcome. */
CV_MUST_CHECK int cv_queue_enqueue_successor(struct cv_db *db, const struct cv_job *job,
                                             const char *job_type, const json_t *payload,
                                             struct cv_error *error);

struct cv_run_params {
    const char *workflow;
    const char *video_id; /* NULL: none */
    const json_t *input;  /* an object; NULL: {} */
    int priority;         /* 0..10; -1: the highest base priority of its types */
};

/* Starts the active version of a workflow with all its jobs; part of the caller's transaction when
 * one is open. CV_QUEUE_DUPLICATE when the video is on its way already: the id is that run's. */
CV_MUST_CHECK int cv_queue_start_run(struct cv_db *db, const struct cv_run_params *params,
                                     char ret_run_id[CV_UUID_SIZE], struct cv_error *error);

/* The failed and canceled steps of a run once more; *ret_count says how many.
 * CV_QUEUE_NO_SUCH_JOB when there is no such run. */
CV_MUST_CHECK int cv_queue_restart_run(struct cv_db *db, const char *run_id, int64_t *ret_count,
                                       struct cv_error *error);

/* Stops every job of a run that is not done. */
CV_MUST_CHECK int cv_queue_cancel_run(struct cv_db *db, const char *run_id, struct cv_error *error);

/* ---- claim and lease ------------------------------------------------------------------------- */

/* Claims up to `limit` jobs of one type in one statement and starts an attempt of each. Also brings
 * due retries and expired leases of that type back first. CV_QUEUE_EMPTY is an outcome. */
CV_MUST_CHECK int cv_queue_claim(struct cv_db *db, const char *worker_id, const char *job_type,
                                 int limit, int64_t lease_ms, struct cv_job_list *ret_list,
                                 struct cv_error *error);

/* Renews one lease: 0, CV_LEASE_LOST or CV_QUEUE_CANCEL. */
CV_MUST_CHECK int cv_queue_renew(struct cv_db *db, const char *job_id, int64_t token,
                                 int64_t lease_ms, struct cv_error *error);

/* Writes progress (0..1) and what is being done; same outcomes as cv_queue_renew. */
CV_MUST_CHECK int cv_queue_progress(struct cv_db *db, const char *job_id, int64_t token,
                                    double fraction, const char *doing, struct cv_error *error);

/* ---- settle ---------------------------------------------------------------------------------- */

/* What is known of an attempt when it ends; goes to job_attempts. Texts may be NULL. */
struct cv_attempt_report {
    int exit_code; /* of the stage process; -1: killed by a signal or never started */
    int64_t pid;
    double cpu_seconds;
    int64_t peak_memory_bytes;
    const char *stdout_tail; /* up to 8 KiB each */
    const char *stderr_tail;
};

/* Locks the job's row and checks the token; first statement of a commit. Needs a transaction. */
CV_MUST_CHECK int cv_queue_fence(struct cv_db *db, const struct cv_job *job,
                                 struct cv_error *error);

/* processing → done, with the result that the API shows. */
CV_MUST_CHECK int cv_queue_complete(struct cv_db *db, const struct cv_job *job,
                                    const json_t *result, const struct cv_attempt_report *report,
                                    struct cv_error *error);

/* Many at once, without reports; *ret_completed counts those whose token still held. */
CV_MUST_CHECK int cv_queue_complete_batch(struct cv_db *db, const struct cv_job_list *list,
                                          size_t *ret_completed, struct cv_error *error);

/* processing → failed. CV_QUEUE_RETRY when the verdict allows another try and retries are left; 0: a
 * dead letter, or canceled where somebody had asked for that. */
CV_MUST_CHECK int cv_queue_fail(struct cv_db *db, const struct cv_job *job,
                                const struct cv_error *failure,
                                const struct cv_attempt_report *report, struct cv_error *error);

/* Gives the job back at once; the attempt does not count. */
CV_MUST_CHECK int cv_queue_release(struct cv_db *db, const struct cv_job *job, const char *reason,
                                   const struct cv_attempt_report *report, struct cv_error *error);

/* processing → canceled, after the work has been stopped. */
CV_MUST_CHECK int cv_queue_settle_canceled(struct cv_db *db, const struct cv_job *job,
                                           const struct cv_attempt_report *report,
                                           struct cv_error *error);

/* Rows of task_artifacts; `artifacts` is a list of {kind, key, size, content_type, checksum}. */
CV_MUST_CHECK int cv_queue_record_artifacts(struct cv_db *db, const struct cv_job *job,
                                            const char *bucket, const json_t *artifacts,
                                            struct cv_error *error);

/* ---- by hand --------------------------------------------------------------------------------- */

/* A waiting job is canceled at once; a running one is asked to stop. */
CV_MUST_CHECK int cv_queue_cancel(struct cv_db *db, const char *job_id, struct cv_error *error);

/* failed or canceled → queued, with a fresh set of retries and all its history; CV_QUEUE_DUPLICATE
 * when the same work waits or runs already. */
CV_MUST_CHECK int cv_queue_retry(struct cv_db *db, const char *job_id, struct cv_error *error);

/* Every dead letter of a type; *ret_count says how many. */
CV_MUST_CHECK int cv_queue_retry_failed(struct cv_db *db, const char *job_type, int64_t *ret_count,
                                        struct cv_error *error);

/* ---- workers --------------------------------------------------------------------------------- */

struct cv_worker_state {
    const char *id; /* host:pid:boot id */
    const char *host;
    const char *job_type;
    const char *state; /* "running", "draining", "stopped" */
    int slots;
    int running;
};

enum { CV_WORKER_HOST_SIZE = 64, CV_WORKER_ID_SIZE = 160 };

/* What this process is called among the workers. */
void cv_queue_name_worker(char *host, size_t host_size, char *id, size_t id_size);

/* Writes the worker's row: on start, with every heartbeat, at the end. CV_QUEUE_DRAIN is an
 * outcome. */
CV_MUST_CHECK int cv_queue_report_worker(struct cv_db *db, const struct cv_worker_state *state,
                                         struct cv_error *error);

/* Notes how full a disk of this host is, in its log. */
CV_MUST_CHECK int cv_queue_report_disk(struct cv_db *db, const char *host, const char *path,
                                       int64_t total_bytes, int64_t free_bytes,
                                       struct cv_error *error);

/* Wakes the nodes that sleep and that jobs starting within five minutes need, each once in five
 * minutes whoever asks. `tell` hears of each: `failure` is NULL for one that was called. */
typedef void cv_queue_wake_told(void *opaque, const char *node, const struct cv_error *failure);
CV_MUST_CHECK int cv_queue_wake_nodes(struct cv_db *db, cv_queue_wake_told *tell, void *opaque,
                                      struct cv_error *error);

/* Wakes one node by name, needed or not. CV_QUEUE_NO_SUCH_JOB: there is no such node. */
CV_MUST_CHECK int cv_queue_wake_node(struct cv_db *db, const char *name, struct cv_error *error);

/* ---- migrations ------------------------------------------------------------------------------ */

struct cv_migration_status {
    int applied; /* in the database */
    int pending; /* in this binary and not in the database */
};

/* Applies every pending migration, each in a transaction, under an advisory lock, with its
 * checksum; a migration whose text has changed since it was applied is CV_ERROR_CONFLICT. */
CV_MUST_CHECK int cv_migrate(struct cv_db *db, struct cv_migration_status *ret_status,
                             struct cv_error *error);

/* What cv_migrate would do. */
CV_MUST_CHECK int cv_migrate_status(struct cv_db *db, struct cv_migration_status *ret_status,
                                    struct cv_error *error);

/* Whether this program may work on this schema: 0 when the database holds every migration that the
 * program knows, and none that has taken away what it uses, however many more there are. Else
 * CV_QUEUE_SCHEMA, and `reason` says which of both is to be brought up to date. */
enum { CV_SCHEMA_REASON_SIZE = 400 };
CV_MUST_CHECK int cv_queue_check_schema(struct cv_db *db, char reason[CV_SCHEMA_REASON_SIZE],
                                        struct cv_error *error);
