/* The job queue over PostgreSQL. The rules (states, leases, retries, fencing, history) live in SQL
 * functions (sql/migrations), so that any language can use the queue; these functions call them.
 *
 * A claim gives a job to a worker for the time of its lease. Its `token` is a fencing token, which
 * grows with every claim. Every call that renews the lease, reports or settles names job and token,
 * and returns CV_LEASE_LOST once another claim has taken the job: the worker then aborts and discards
 * its output.
 *
 * The functions keep no state of their own. A connection is used by one thread at a time (db.h). They
 * return 0, another enum cv_queue_outcome where the comment names it, or -1 and `error`.
 */
#pragma once

#include "common/base/base.h"
#include "common/db/db.h"

#include <jansson.h>

enum cv_queue_outcome {
    CV_QUEUE_OK = 0,
    CV_LEASE_LOST = 1,      /* the token is no longer the job's: abort, discard the output */
    CV_QUEUE_EMPTY = 2,     /* nothing to claim */
    CV_QUEUE_DUPLICATE = 3, /* a run of the video has not ended; its id is returned */
    CV_QUEUE_CANCEL = 4,    /* the lease holds, but the job is to be stopped */
    CV_QUEUE_DRAIN = 7,     /* report_worker: this worker must finish its jobs and exit */
    CV_QUEUE_RETRY = 9,     /* fail: the job will be retried */
    CV_QUEUE_SCHEMA = 8,    /* check_schema: the schema does not fit this program */
};

enum { CV_UUID_SIZE = 37 };

/* One claimed job. Owns its members. */
struct cv_job {
    char id[CV_UUID_SIZE];
    char video_id[CV_UUID_SIZE];       /* "" when the job has no video */
    char tenant_id[CV_UUID_SIZE];      /* "" when the job has no tenant */
    char correlation_id[CV_UUID_SIZE]; /* the same for all successors */
    char *job_type;
    json_t *payload; /* JSON null when it could not be parsed */
    int64_t token;
    int64_t waited_ms; /* between the moment it became claimable and the claim */
    int priority;      /* 0..10 */
    int attempt;       /* 1 for the first */
    int64_t time_limit_ms;
};

struct cv_job_list {
    struct cv_job *jobs;
    size_t count;
};

void cv_job_list_deinit(struct cv_job_list *list);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_job_list, cv_job_list_deinit)

/* ---- the next jobs --------------------------------------------------------------------------- */

/* Enqueues the next stage with `payload`, in the transaction that completes `job`. When the job belongs
 * to a run, the payload goes to the later jobs of that type in the run. Otherwise a job is enqueued
 * with the same video, sequence, priority and correlation id; that such a job is already queued or
 * processing counts as success. CV_LEASE_LOST is an outcome. */
CV_MUST_CHECK int cv_queue_enqueue_successor(struct cv_db *db, const struct cv_job *job,
                                             const char *job_type, const json_t *payload,
                                             struct cv_error *error);

/* For a stage that has done a part of its work: enqueues another job of the same step, which
 * continues with `payload`. Each step that waits for `job` gets a part of its own for what the new
 * job will hand on. Fails for a job that belongs to no run. CV_LEASE_LOST is an outcome. */
CV_MUST_CHECK int cv_queue_continue(struct cv_db *db, const struct cv_job *job,
                                    const json_t *payload, struct cv_error *error);

struct cv_run_params {
    const char *workflow;
    const char *video_id; /* NULL: none */
    const json_t *input;  /* an object; NULL: {} */
    int priority;         /* 0..10; -1: the highest base priority of its types */
};

/* Starts the active version of a workflow with all its jobs; part of the caller's transaction when
 * one is open. CV_QUEUE_DUPLICATE when the video already has a run that has not ended; *ret_run_id is
 * that run's id. */
CV_MUST_CHECK int cv_queue_start_run(struct cv_db *db, const struct cv_run_params *params,
                                     char ret_run_id[CV_UUID_SIZE], struct cv_error *error);

/* ---- claim and lease ------------------------------------------------------------------------- */

struct cv_claim_params {
    const char *worker_id;
    const char *job_type;
    int limit; /* jobs, at least 1 */
    int64_t lease_ms;
};

/* Claims up to `limit` jobs of one type in one statement and starts an attempt of each. First makes
 * claimable again the jobs of that type whose retry is due or whose lease has expired.
 * CV_QUEUE_EMPTY is an outcome. */
CV_MUST_CHECK int cv_queue_claim(struct cv_db *db, const struct cv_claim_params *params,
                                 struct cv_job_list *ret_list, struct cv_error *error);

/* What a worker holds of a claimed job; borrows the id. */
struct cv_lease {
    const char *job_id;
    int64_t token;
};

/* Renews a lease for `lease_ms` from now: 0, CV_LEASE_LOST or CV_QUEUE_CANCEL. */
CV_MUST_CHECK int cv_queue_renew(struct cv_db *db, const struct cv_lease *lease, int64_t lease_ms,
                                 struct cv_error *error);

/* Whether a job or a clip stays in this state, as the API names it (api.job_state); NULL: no. */
bool cv_queue_is_over(const char *state);

/* Writes progress (0..1) and what the job is doing (NULL: unknown); same outcomes as cv_queue_renew. */
CV_MUST_CHECK int cv_queue_progress(struct cv_db *db, const struct cv_lease *lease, double fraction,
                                    const char *doing, struct cv_error *error);

/* ---- settle ---------------------------------------------------------------------------------- */

/* What is known about an attempt when it ends; stored in job_attempts. Texts may be NULL. */
struct cv_attempt_report {
    /* Of the stage, or of the program that the stage ran; -1: a signal ended it, or it never started. */
    int exit_code;
    int64_t pid;
    double cpu_seconds;
    int64_t peak_memory_bytes;
    const char *stdout_tail; /* the last 8 KiB of each are stored, without secrets */
    const char *stderr_tail;
    const json_t
        *warnings; /* list of {level, message}: they become events of the job; NULL: none */
};

/* The log of a job: a JSON text (free() it) with the job, its attempts and its events, without secrets.
 * CV_ERROR_NOT_FOUND when the job does not exist. */
CV_MUST_CHECK int cv_queue_job_log(struct cv_db *db, const char *job_id, char **ret_text,
                                   struct cv_error *error);

/* Locks the job's row until the transaction ends and checks the token: the first statement of a
 * transaction that commits a job's output. Needs an open transaction. */
CV_MUST_CHECK int cv_queue_fence(struct cv_db *db, const struct cv_job *job,
                                 struct cv_error *error);

/* processing → done, with the result that the API shows. */
CV_MUST_CHECK int cv_queue_complete(struct cv_db *db, const struct cv_job *job,
                                    const json_t *result, const struct cv_attempt_report *report,
                                    struct cv_error *error);

/* processing → failed. CV_QUEUE_RETRY when the verdict of `failure` allows a retry and retries are
 * left. 0 when the job becomes a dead letter, or canceled because that had been requested. */
CV_MUST_CHECK int cv_queue_fail(struct cv_db *db, const struct cv_job *job,
                                const struct cv_error *failure,
                                const struct cv_attempt_report *report, struct cv_error *error);

/* processing → queued, at once; the attempt does not count as a retry. */
CV_MUST_CHECK int cv_queue_release(struct cv_db *db, const struct cv_job *job, const char *reason,
                                   const struct cv_attempt_report *report, struct cv_error *error);

/* processing → canceled, after the work has been stopped. */
CV_MUST_CHECK int cv_queue_settle_canceled(struct cv_db *db, const struct cv_job *job,
                                           const struct cv_attempt_report *report,
                                           struct cv_error *error);

/* Writes rows of task_artifacts; `artifacts` is an array of
 * {kind, key, size, content_type, checksum}. */
CV_MUST_CHECK int cv_queue_record_artifacts(struct cv_db *db, const struct cv_job *job,
                                            const char *bucket, const json_t *artifacts,
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

/* Names this process for cv_worker_state: the host, and "host:pid:boot id". */
void cv_queue_name_worker(char *host, size_t host_size, char *id, size_t id_size);

/* Writes the worker's row: on start, with every heartbeat, at the end. Its labels are the JSON object
 * in CORTANA_WORKER_LABELS; CV_ERROR_CONFIGURATION when that is something else. CV_QUEUE_DRAIN is an
 * outcome. */
CV_MUST_CHECK int cv_queue_report_worker(struct cv_db *db, const struct cv_worker_state *state,
                                         struct cv_error *error);

struct cv_disk_state {
    const char *host;
    const char *path; /* a directory on the disk */
    int64_t total_bytes;
    int64_t free_bytes;
};

/* Records how full the scratch disk of a host is. */
CV_MUST_CHECK int cv_queue_report_disk(struct cv_db *db, const struct cv_disk_state *state,
                                       struct cv_error *error);

/* Wakes the nodes without a running worker that jobs due within five minutes need, each node at most
 * once in five minutes, whichever process asks, and those that somebody asked for. Calls `tell` for
 * each node; `failure` is NULL when the packet was sent or the script succeeded. */
typedef void cv_queue_wake_told(const char *node, const struct cv_error *failure);
CV_MUST_CHECK int cv_queue_wake_nodes(struct cv_db *db, cv_queue_wake_told *tell,
                                      struct cv_error *error);

/* ---- migrations ------------------------------------------------------------------------------ */

struct cv_migration_status {
    int applied; /* in the database */
    int pending; /* in this binary and not in the database, though wanted there */
};

/* Applies every pending migration, those of the platform (sql/platform) unless CORTANA_PLATFORM is
 * off, each in its own transaction, and records its checksum. Programs
 * that migrate at the same time wait for each other: each transaction holds a lock that only the
 * schema's owner may take. CV_ERROR_CONFLICT when the text of a migration has changed since it was
 * applied, and when the database holds migrations that this program does not know. */
CV_MUST_CHECK int cv_migrate(struct cv_db *db, struct cv_migration_status *ret_status,
                             struct cv_error *error);

/* Creates the server roles to which the schema grants rights, where they are missing. cv_migrate
 * does this, too; it is separate because restoring a backup needs the roles first. */
CV_MUST_CHECK int cv_roles_make(struct cv_db *db, struct cv_error *error);

/* Counts without changing anything. */
CV_MUST_CHECK int cv_migrate_status(struct cv_db *db, struct cv_migration_status *ret_status,
                                    struct cv_error *error);

/* Whether this program can work with the database's schema: 0 when the database has every
 * migration that the program knows, and no later one that removed what the program uses. Else
 * CV_QUEUE_SCHEMA, and `reason` says whether to update the program or to migrate the database.
 * Reconnects if the connection was made before the database's search_path was set. */
enum { CV_SCHEMA_REASON_SIZE = 400 };
CV_MUST_CHECK int cv_queue_check_schema(struct cv_db *db, char reason[CV_SCHEMA_REASON_SIZE],
                                        struct cv_error *error);
