/* A worker: a trusted supervisor that claims jobs and uses the database, and an untrusted stage
 * process, one per job, that reads one payload and prints one result. A worker's main() passes its
 * stage to cv_worker_main and has a few lines.
 *
 *   NAME [--slots N] [--poll-ms N] …      the supervisor: claims and runs jobs until SIGTERM;
 *                                         --listen: see common/probe/probe.h
 *   NAME --once < payload.json            the stage alone, without a queue; prints the result,
 *                                         exits with the verdict (enum cv_exit). Only a stage that
 *                                         works on tables gets a database
 *
 * An attempt changes no table before its commit: stage rows, artifacts, `done` and the next job are
 * written in one transaction, fenced by the lease.
 *
 * Environment, besides DATABASE_URL and STORE_URL:
 *   CORTANA_SCRATCH       where scratch directories are made (TMPDIR, else /tmp)
 *   CORTANA_SCRATCH_BYTES what one job may leave there (64 GiB), and one file for each 64 KiB of it
 *   CORTANA_LEASE_MS      a claim's lease (300000)
 *   CORTANA_HEARTBEAT_MS  interval of renewals (120000; two fifths of CORTANA_LEASE_MS if that is set)
 *   CORTANA_GRACE_MS      how long a running job may continue after SIGTERM (30000)
 *   CORTANA_STORE_PROBE_MS interval of probes of a store or installation that does not work (5000);
 *                          disks are checked at twelve times this interval
 *   CORTANA_LISTEN        address and port for probes and metrics; --listen overrides it (off)
 *   CORTANA_READ_PATHS    directories A:B that a stage may read besides the system's
 *   CORTANA_SANDBOX       "require": do not start where a required layer is missing; "off": for debuggers
 *
 * During run() a stage is in a sandbox (docs/design/sandbox.md). It may write in its scratch directory;
 * read there, in /usr, /lib, a few files of /etc, TESSDATA_PREFIX and CORTANA_READ_PATHS; and start
 * threads, but no processes. It may open sockets only if it has a database or needs the network. It
 * reaches the store through a broker (common/broker/broker.h), which allows only its own job's objects,
 * and sees only the variables listed in spawn.c. Its standard output is reserved for the result:
 * what libraries print there goes to standard error.
 */
#pragma once

#include "common/base/base.h"
#include "common/broker/broker.h"
#include "common/db/db.h"
#include "common/probe/probe.h"
#include "common/queue/queue.h"
#include "common/store/store.h"

#include <jansson.h>

/* What a stage process may use. Owned by common/worker; valid during run(). */
struct cv_stage_context;

/* The store of STORE_URL (or S3_*); NULL for a stage that does not need a store. */
struct cv_store *cv_stage_store(struct cv_stage_context *context);

/* The database connection; NULL for a stage that does not need the database. */
struct cv_db *cv_stage_db(struct cv_stage_context *context);

/* A private, empty directory, removed by the supervisor whatever happens. Borrowed. */
const char *cv_stage_scratch(struct cv_stage_context *context);

/* Threads this stage may use, from --threads or the CPUs it is allowed; at least 1. */
int cv_stage_threads(const struct cv_stage_context *context);

/* Aborts when the supervisor asks the stage to stop (SIGTERM). Borrowed. */
struct cv_cancel *cv_stage_cancel(struct cv_stage_context *context);

/* Reports the job's progress: 0..1, and a word or two for the current work ("encode"). Cheap
 * enough to call for every frame; sends at most a few reports a second. */
void cv_stage_progress(struct cv_stage_context *context, double fraction, const char *doing);

/* How a program that a stage ran has ended (CV_STAGE_RUNS_PROGRAMS). */
struct cv_program_end {
    int64_t pid;
    int exit_code;      /* -1: a signal ended it */
    const char *output; /* the end of what it printed, up to 8 KiB; any bytes but NUL */
};

/* Records how a program ended: job_attempts shows the program's process id, exit code and output
 * instead of those of the stage. The last call counts. */
CV_MUST_CHECK int cv_stage_record_program(struct cv_stage_context *context,
                                          const struct cv_program_end *end, struct cv_error *error);

/* Opens the store with the worker's own rights, for a stage with CV_STAGE_RUNS_PROGRAMS that needs
 * it for some jobs only. Does nothing when it is already open. */
CV_MUST_CHECK int cv_stage_open_store(struct cv_stage_context *context, struct cv_error *error);

/* Opens an original that the payload names, and records it as an input artifact. A missing object
 * is a permanent error that names the key. */
CV_MUST_CHECK int cv_stage_open_input(struct cv_stage_context *context, const char *key,
                                      struct cv_store_reader **ret_reader, struct cv_error *error);

/* Begins to store bytes (from malloc, taken over also on failure) or a file (which must not be
 * written to any more) while the stage continues. The object is recorded as an output when it is
 * completely stored. A failure may be that of an earlier upload. The functions below, and the end
 * of run(), wait for all uploads. */
CV_MUST_CHECK int cv_stage_upload(struct cv_stage_context *context,
                                  const struct cv_new_object *object, struct cv_error *error);
CV_MUST_CHECK int cv_stage_uploads_wait(struct cv_stage_context *context, struct cv_error *error);

/* Stores a file of the scratch directory, or bytes, and records it as an output. Waits for all
 * uploads first, so that an object that names others is stored after them. */
CV_MUST_CHECK int cv_stage_put(struct cv_stage_context *context, const struct cv_new_object *object,
                               struct cv_error *error);

/* ---- reading payloads ------------------------------------------------------------------------ */

/* Reads a member of the payload. CV_ERROR_INVALID_PAYLOAD, with the member's name, when it is
 * missing, has another type, is out of range, is not a UUID, or is not a valid object key. Texts
 * are borrowed from the payload. */
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
    CV_STAGE_NEEDS_EMBEDDER = 4, /* sees the variables EMBED_* */
    CV_STAGE_RUNS_PROGRAMS = 8,  /* no sandbox, to start processes; sees the store's variables */
    CV_STAGE_ONLY_REMOVES = 16,  /* runs also when the store is full or may not be written to */
    CV_STAGE_NEEDS_NETWORK = 32, /* IPv4 and IPv6, for requests to other machines */
    CV_STAGE_NEEDS_MAIL_SERVER = 64, /* sees SMTP_URL */
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
    bool yields;                   /* runs at lower CPU priority than other processes */
    const struct cv_grant *grants; /* which objects a job may read and write; NULL: none */

    /* Payload → result, in the stage process, called once per process. May be killed at any
     * instant. Running it twice with the same payload must leave the same objects as running it
     * once. *ret_result is a JSON object. */
    int (*run)(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
               struct cv_error *error);

    /* Checks that the settings and files exist without which no job can be done. Called when the
     * worker starts, which fails with this error, and when a stage reports that this installation
     * cannot work: then on a separate thread, repeatedly until it succeeds. NULL: there is nothing
     * to check. */
    int (*check)(struct cv_error *error);

    /* With CV_STAGE_NEEDS_NETWORK: the TCP port that run() will connect to, asked in the stage
     * process before it enters the sandbox. The sandbox then allows only this port, the database's
     * and that of name servers. 0: none. */
    int (*port)(struct cv_stage_context *context, const json_t *payload, uint16_t *ret_port,
                struct cv_error *error);

    /* Result → rows and the next job, in the supervisor, inside the transaction that ends the job:
     * after the fence, before `done` is written. Replaces rows of an earlier run. Called again if
     * the transaction is retried. `result` is what run() returned in an untrusted process, so
     * check it. The API shows the result's member "summary" as the job's result if it is an
     * object, else all members that are not lists. NULL: nothing else is to be written. */
    int (*commit)(struct cv_db *db, const struct cv_job *job, const json_t *result,
                  struct cv_error *error);
};

/* The whole main() of a worker; returns the exit status. */
int cv_worker_main(const struct cv_stage *stage, int argc, char **argv);
