/* The broker: the store as a stage sees it.
 *
 * A stage reads a stranger's file, so that it gets no network, no store credentials and no directory
 * of the store. A small trusted process, one per job, holds the store and does for the stage what the
 * job's grants allow: a request and its reply at a time over a Unix socket that the stage inherits.
 * An object of a directory store is handed over as an open file, so that reading it costs nothing;
 * an object of an S3 store is sent through the socket. A file that the stage stores is named, and the
 * broker opens it; bytes are sent. A stage sends no descriptors: the kernel bounds those on their way
 * by user, and one that floods its broker with them would keep all others of its user from theirs.
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
    CV_GRANT_READ = 1,  /* head, get, read, list */
    CV_GRANT_WRITE = 2, /* put, delete */
};

/* What a stage may do with some keys. `keys` is one key or, with a '*' in it (one at most, which
 * stands for any text), a pattern; "{name}" stands for that member of the job's payload. A list may
 * be asked for below a pattern that ends in '*'. */
struct cv_grant {
    unsigned access; /* enum cv_grant_access, or-ed; 0 ends a table */
    const char *keys;
};

/* The grants of one job, from its stage's table (NULL: nothing is granted) and its payload: a JSON
 * list of [access, pattern] (free it). A grant whose members the payload does not have, or has with a
 * '/' or a '*', is left out: the stage refuses such a payload itself. */
CV_MUST_CHECK int cv_grants_make(const struct cv_grant *table, const json_t *payload,
                                 json_t **ret_grants, struct cv_error *error);

/* Whether one of the grants allows this to be done with the key, or with all keys that begin with
 * the prefix. */
bool cv_grants_allow(const json_t *grants, unsigned access, const char *key);
bool cv_grants_allow_list(const json_t *grants, const char *prefix);

/* ---- the stage's side ------------------------------------------------------------------------ */

/* The store behind a broker. `fd` is the socket, `cancel_fd` the one that cancels; both are taken
 * over whatever happens. Fails with the error with which the broker could not open the store. Copying,
 * moving, presigning and metadata are refused. Used by one thread at a time. */
CV_MUST_CHECK int cv_broker_store_open(int fd, int cancel_fd, struct cv_store **ret_store,
                                       struct cv_error *error);

/* ---- the trusted side ------------------------------------------------------------------------ */

struct cv_broker {
    int fd;               /* the broker's end of the socket */
    int cancel_fd;        /* readable: what is being done is not wanted any more */
    const json_t *grants; /* of cv_grants_make */
    const char *scratch;  /* files to be stored lie in this directory */
    int64_t file_bytes;   /* the largest object that may be stored */
    int64_t stored_bytes; /* of all objects that the job stores, … */
    int64_t objects;      /* … and their number */
};

/* Opens the store that the environment names when the stage asks for it, and serves until the stage
 * has closed its end or has broken the protocol. Takes both descriptors over. */
void cv_broker_serve(struct cv_broker *broker);

/* The ends of a broker's two sockets, close-on-exec. */
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

/* What a job's broker has to know. */
struct cv_broker_job {
    const json_t *grants;
    const char *scratch;
    int64_t file_bytes, stored_bytes, objects;
    const char *worker_id, *job_type, *job_id, *video_id, *tenant_id; /* for its log lines */
    int attempt;
};

/* The host process' whole life: forks a broker for each job announced on `fd` (a SOCK_SEQPACKET
 * socket), and returns when the other end is closed. Call it in a process without threads. */
void cv_broker_host(int fd);

/* Announces a job to a host; the broker's ends of `line` are closed here. A host that is gone is
 * CV_ERROR_CONNECTION. */
CV_MUST_CHECK int cv_broker_announce(int host_fd, const struct cv_broker_job *job,
                                     struct cv_broker_line *line, struct cv_error *error);
