/* A worker: a trusted supervisor that claims jobs and owns the database, and an untrusted stage
 * process, one per job, that reads one payload and prints one result. A worker's main() hands its
 * stage to cv_worker_main and is a few lines long.
 *
 *   NAME [--slots N] [--poll-ms N] …      the supervisor: claims and runs jobs until SIGTERM;
 *                                         --listen: see common/probe/probe.h
 *   NAME --once < payload.json            the stage alone, without a queue; prints the result,
 *                                         exits with the verdict (enum cv_exit). Only a stage made
 *                                         of tables is given a database
 *
 * Nothing of an attempt reaches the tables before its commit: stage rows, artifacts, `done` and the
 * next job are one transaction, fenced by the lease.
 *
 * Environment, besides DATABASE_URL and STORE_URL:
 *   CORTANA_SCRATCH       where scratch directories are made (TMPDIR, else /tmp)
 *   CORTANA_SCRATCH_BYTES, CORTANA_SCRATCH_FILES  what one job may leave there (64 GiB, a million)
 *   CORTANA_LEASE_MS      a claim's lease (300000)
 *   CORTANA_HEARTBEAT_MS  renewed this often (120000; two fifths of a lease that was changed)
 *   CORTANA_GRACE_MS      what a running job is given after SIGTERM (30000)
 *   CORTANA_DISK_WATCH_MS look how full the disks of scratch and a directory store are (60000)
 *   CORTANA_STORE_PROBE_MS try a store or an installation that refuses again this often (5000)
 *   CORTANA_LISTEN        address and port for probes and metrics; --listen goes before (off)
 *   CORTANA_READ_PATHS    directories A:B that a stage may read besides the system's
 *   CORTANA_SANDBOX       "require": no work where a layer that matters is missing; "off" for debuggers
 *
 * During run() a stage is shut in (docs/design/sandbox.md): it writes in its scratch directory, reads
 * there, in /usr, /lib, a few files of /etc, TESSDATA_PREFIX and CORTANA_READ_PATHS, starts threads but
 * no processes, opens no sockets unless it has a database or needs the network, reaches the store
 * through a broker (common/broker/broker.h) that lets it touch its own job's objects, and sees only
 * the variables listed in variables.c. Its standard output is the result's: what libraries print
 * there goes to standard error.
 */
#pragma once

#include "common/base/base.h"
#include "common/broker/broker.h"
#include "common/db/db.h"
#include "common/probe/probe.h"
#include "common/queue/queue.h"
#include "common/store/store.h"

#include <jansson.h>

/* What a stage process may use. Owned by the library; valid during run(). */
struct cv_stage_context;

/* Opened from STORE_URL (or S3_*); NULL for a stage that does not need a store. */
struct cv_store *cv_stage_store(struct cv_stage_context *context);

/* The job's tables connection; NULL for a stage that does not need the database. */
struct cv_db *cv_stage_db(struct cv_stage_context *context);

/* A private, empty directory, removed by the supervisor whatever happens. Borrowed. */
const char *cv_stage_scratch(struct cv_stage_context *context);

/* Threads this stage may use, from --threads or the CPUs it is allowed; at least 1. */
int cv_stage_threads(const struct cv_stage_context *context);

/* Aborts when the supervisor asks the stage to stop (SIGTERM). Borrowed. */
struct cv_cancel *cv_stage_cancel(struct cv_stage_context *context);

/* Tells how far the job is: 0..1, and a word or two of what is being done ("encode"). Cheap: call
 * it for every frame, it reports a few times a second at most. */
void cv_stage_progress(struct cv_stage_context *context, double fraction, const char *doing);

/* How a program ended that a stage has run (CV_STAGE_RUNS_PROGRAMS). */
struct cv_program_end {
    int64_t pid;
    int exit_code;      /* -1: a signal ended it */
    const char *output; /* the end of what it printed, up to 8 KiB; any bytes but NUL */
};

/* Notes it: job_attempts shows the program's process, exit code and output in place of the stage's own.
 * The last call counts. */
CV_MUST_CHECK int cv_stage_note_program(struct cv_stage_context *context,
                                        const struct cv_program_end *end, struct cv_error *error);

/* Opens the store with the worker's own rights, for a stage that needs it for some jobs only; with
 * CV_STAGE_RUNS_PROGRAMS. Nothing is done when it is open. */
CV_MUST_CHECK int cv_stage_open_store(struct cv_stage_context *context, struct cv_error *error);

/* Opens an original of the payload: a reader, with the missing object turned into the permanent
 * error that names the key, and noted as an input artifact. */
CV_MUST_CHECK int cv_stage_open_input(struct cv_stage_context *context, const char *key,
                                      struct cv_store_reader **ret_reader, struct cv_error *error);

/* Begins to put bytes (from malloc, taken over whatever happens) or a file (that is not written to
 * any more) into the store while the stage goes on; noted as an output when it is whole. A failure
 * may be that of an earlier one. The calls below, and the end of run(), wait for all of them. */
CV_MUST_CHECK int cv_stage_upload(struct cv_stage_context *context, const char *key, void *data,
                                  size_t size, const char *content_type, struct cv_error *error);
CV_MUST_CHECK int cv_stage_upload_file(struct cv_stage_context *context, const char *key,
                                       const char *path, const char *content_type,
                                       struct cv_error *error);
CV_MUST_CHECK int cv_stage_uploads_wait(struct cv_stage_context *context, struct cv_error *error);

/* Puts a file of the scratch directory (or bytes) into the store and notes it as an output: what
 * names objects that were uploaded is put after them. */
CV_MUST_CHECK int cv_stage_put_file(struct cv_stage_context *context, const char *key,
                                    const char *path, const char *content_type,
                                    struct cv_error *error);
CV_MUST_CHECK int cv_stage_put(struct cv_stage_context *context, const char *key, const void *data,
                               size_t size, const char *content_type, struct cv_error *error);

/* ---- reading payloads ------------------------------------------------------------------------ */

/* A member of the payload; CV_ERROR_INVALID_PAYLOAD names the key when it is missing, of another
 * type, out of range, no UUID, or no valid object key. Texts are borrowed from the payload. */
CV_MUST_CHECK int cv_payload_uuid(const json_t *payload, const char *key, const char **ret_uuid,
                                  struct cv_error *error);
CV_MUST_CHECK int cv_payload_object_key(const json_t *payload, const char *key,
                                        const char **ret_object_key, struct cv_error *error);
CV_MUST_CHECK int cv_payload_int(const json_t *payload, const char *key, int64_t low, int64_t high,
                                 int64_t *ret_value, struct cv_error *error);
CV_MUST_CHECK int cv_payload_int_or(const json_t *payload, const char *key, int64_t fallback,
                                    int64_t low, int64_t high, int64_t *ret_value,
                                    struct cv_error *error);
CV_MUST_CHECK int cv_payload_double_or(const json_t *payload, const char *key, double fallback,
                                       double low, double high, double *ret_value,
                                       struct cv_error *error);

/* ---- the stage ------------------------------------------------------------------------------- */

enum cv_stage_needs {
    CV_STAGE_NEEDS_STORE = 1,
    CV_STAGE_NEEDS_DATABASE = 2,
    CV_STAGE_NEEDS_EMBEDDER = 4, /* sees EMBED_* */
    CV_STAGE_RUNS_PROGRAMS = 8,  /* no sandbox: it starts processes; sees the store's variables */
    CV_STAGE_ONLY_REMOVES = 16,  /* of a store: works on a full one, and needs no right to write */
    CV_STAGE_NEEDS_NETWORK = 32, /* IPv4 and IPv6, for requests to other machines */
};

/* Bounds of one stage process; 0 = the default in brackets. */
struct cv_stage_limits {
    int64_t memory_bytes; /* private writable memory; address space is twice that (4 GiB) */
    int64_t file_bytes;   /* one file written (64 GiB) */
    int64_t cpu_seconds;  /* (24 × the job's time limit × threads) */
};

/* A stage, as data. */
struct cv_stage {
    const char *name;     /* the binary: "ocr-worker" */
    const char *job_type; /* "ocr" */
    unsigned needs;       /* enum cv_stage_needs, or-ed */
    struct cv_stage_limits limits;
    bool yields;                   /* where CPUs are few, other processes come first */
    const struct cv_grant *grants; /* what a job may do in the store; NULL: nothing */

    /* Payload → result, in the stage process, once per process. May be killed at any instant.
     * Running it twice with the same payload must leave the same objects as once. *ret_result is an
     * object. */
    int (*run)(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
               struct cv_error *error);

    /* Whether the settings and files are there without which no job could be done. Asked by the worker at its start, which
     * fails then, and when a stage says that this installation cannot work: on a thread of its own, and again and again
     * until it is so. NULL: there are none. */
    int (*check)(struct cv_error *error);

    /* With CV_STAGE_NEEDS_NETWORK: the TCP port that run() will connect to, asked in the stage
     * process before it is shut in. All others but the database's and a name server's are closed
     * then. 0: none. */
    int (*port)(struct cv_stage_context *context, const json_t *payload, uint16_t *ret_port,
                struct cv_error *error);

    /* Result → rows and the next job, in the supervisor, inside the transaction that ends the job;
     * the fence is taken before and `done` is written after. Replaces rows of an earlier run. May
     * be repeated when the transaction is. `result` is what run() returned: from an untrusted
     * process, so check it. The API shows the result's member "summary" as the job's result where
     * it is an object, else all members that are no lists. NULL: nothing is to be written but
     * that. */
    int (*commit)(struct cv_db *db, const struct cv_job *job, const json_t *result,
                  struct cv_error *error);
};

/* The whole main() of a worker; returns the exit status. */
int cv_worker_main(const struct cv_stage *stage, int argc, char **argv);
