/* The broker gives a stage access to the store.
 *
 * A stage reads a stranger's file, so it gets no network, no store credentials and no directory of
 * the store. A small trusted process, one per job, opens the store and does for the stage only what
 * the job's grants allow. The stage inherits a Unix socket and sends one request at a time over it.
 * To read an object of a directory store, it receives an open file; the bytes of an S3 object are
 * sent through the socket. To store a file, it sends the file's name and the broker opens the file;
 * to store bytes, it sends them. A stage never sends descriptors: the kernel limits descriptors in
 * flight per user, and a stage that floods its broker would block all others of its user.
 *
 *   stage: cv_broker_store_open() <── requests, replies ──> broker: cv_broker_serve() ── the store
 *                                 ─── "cancel" ───────────>
 *
 * A supervisor has threads, and a process with threads cannot fork safely. It therefore starts one
 * host process (cv_broker_host), which forks a broker for each job that the supervisor announces.
 */
#pragma once

#include "common/base/base.h"
#include "common/store/store.h"

#include <jansson.h>

/* ---- grants ---------------------------------------------------------------------------------- */

enum cv_grant_access {
    CV_GRANT_READ = 1,       /* head, get, read, list */
    CV_GRANT_WRITE = 2,      /* put; each stage names the endings of what it makes */
    CV_GRANT_DELETE = 4,     /* delete */
    CV_GRANT_TRANSCRIBE = 8, /* cv_broker_transcribe; "keys" is CV_GRANTED_SOUND */
};

#define CV_GRANTED_SOUND "sound"

/* What a stage may do with some keys. `keys` is one key, or a pattern with one '*', which stands
 * for any text. "{name}" stands for that member of the job's payload, "{list.name}" for that member of
 * each object of a list. Listing is allowed below a pattern that ends in '*'. */
struct cv_grant {
    unsigned access; /* enum cv_grant_access, or-ed; 0 ends a table */
    const char *keys;
};

/* Makes the grants of one job from its stage's table (NULL: nothing is granted) and its payload: a
 * JSON list of [access, pattern] (free it). A grant is left out if the payload lacks one of its
 * members, or if the member contains '/' or '*'; the stage itself refuses such a payload. */
CV_MUST_CHECK int cv_grants_make(const struct cv_grant *table, const json_t *payload,
                                 json_t **ret_grants, struct cv_error *error);

/* Whether a grant allows this access to the key, or listing all keys that begin with the prefix. */
bool cv_grants_allow(const json_t *grants, unsigned access, const char *key);
bool cv_grants_allow_list(const json_t *grants, const char *prefix);

/* ---- the stage's side ------------------------------------------------------------------------ */

/* Opens the store behind a broker. `fd` is the socket for requests, `cancel_fd` the one that
 * cancels them; both are taken over, also on failure. If the broker could not open the store,
 * fails with the broker's error. Copying, moving, presigning and metadata are refused. Used by one
 * thread at a time. */
CV_MUST_CHECK int cv_broker_store_open(int fd, int cancel_fd, struct cv_store **ret_store,
                                       struct cv_error *error);

/* Has the broker send a WAV file of the scratch directory to the endpoint of TRANSCRIBE_URL (common/speech). A stage has
 * neither network nor key, so that a file that has taken it over reaches nobody. One file for each job, of at most
 * CV_SPEECH_BYTES_MAX. Returns 0 whatever the answer's status is. Of the answer, which the caller deinits, only status,
 * body and retry_after_ms are set. */
struct cv_http_answer;
CV_MUST_CHECK int cv_broker_transcribe(struct cv_store *store, const char *file,
                                       struct cv_http_answer *ret_answer, struct cv_error *error);

/* ---- the trusted side ------------------------------------------------------------------------ */

struct cv_broker {
    int fd;               /* the broker's end of the socket */
    int cancel_fd;        /* readable when the current request is canceled */
    const json_t *grants; /* of cv_grants_make */
    const char *scratch;  /* the directory of files that the stage may store */
    int64_t file_bytes;   /* the largest object that may be stored */
    int64_t stored_bytes; /* of all objects that the job stores, … */
    int64_t objects;      /* … and their number */
};

/* Opens the store that the environment names when the stage first asks for it, and serves requests
 * until the stage closes its end or breaks the protocol. Takes both descriptors over. */
void cv_broker_serve(struct cv_broker *broker);

/* The ends of a broker's two sockets; all are close-on-exec. */
struct cv_broker_line {
    int stage_fd, stage_cancel_fd;
    int broker_fd, broker_cancel_fd;
};

#define CV_BROKER_LINE_INIT \
    {                       \
        -1, -1, -1, -1      \
    }

CV_MUST_CHECK int cv_broker_line_init(struct cv_broker_line *line, struct cv_error *error);
void cv_broker_line_deinit(struct cv_broker_line *line);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_broker_line, cv_broker_line_deinit)

/* What a job's broker needs to know. */
struct cv_broker_job {
    const json_t *grants;
    const char *scratch;
    int64_t file_bytes, stored_bytes, objects;
    const char *worker_id, *job_type, *job_id, *video_id, *tenant_id; /* for its log lines */
    int attempt;
};

/* Runs the host process: forks a broker for each job announced on `fd` (a SOCK_SEQPACKET socket),
 * and returns when the other end is closed. Call it in a process without threads. */
void cv_broker_host(int fd);

/* Announces a job to a host. Closes the broker's ends of `line` here. CV_ERROR_CONNECTION when the
 * host has exited. */
CV_MUST_CHECK int cv_broker_announce(int host_fd, const struct cv_broker_job *job,
                                     struct cv_broker_line *line, struct cv_error *error);
