/* The keeper: a thread with its own database connection that renews the leases of running jobs, and
 * writes their progress and the worker's row. The loop tells it which jobs run and asks it for
 * news; the loop never waits for the keeper or its database. */
#pragma once

#include "common/worker/child.h"

struct cv_keeper;

struct cv_keeper_params {
    const char *worker_id; /* borrowed, as are the other texts */
    const char *host;
    const char *job_type;
    int slots;
    int64_t lease_ms;
    int64_t heartbeat_ms;
    int news_fd; /* borrowed; signalled when there is news (cv_wakeup_signal) */
};

CV_MUST_CHECK int cv_keeper_start(const struct cv_keeper_params *params,
                                  struct cv_keeper **ret_keeper, struct cv_error *error);

/* Writes "stopped" into the worker's row if the database is there, and ends the thread. */
void cv_keeper_stop(struct cv_keeper *keeper);

/* Call it when a job starts in a slot. Its lease is valid until `lease_end`, on the monotonic
 * clock. */
void cv_keeper_hold(struct cv_keeper *keeper, int slot, const struct cv_job *job,
                    int64_t lease_end);
/* Call it when the slot is free again. A database call about its job that is under way may still
 * end, and changes nothing: the lease's token is not valid any more. */
void cv_keeper_let_go(struct cv_keeper *keeper, int slot);

/* Copies the progress, which is written to the database soon. */
void cv_keeper_progress(struct cv_keeper *keeper, int slot, const struct cv_progress *progress);

void cv_keeper_draining(struct cv_keeper *keeper);

/* Whether the keeper is connected and has written the worker's row, so that a new lease would be
 * renewed; there is news when this changes. */
bool cv_keeper_can_keep(struct cv_keeper *keeper);

/* True: the keeper closes its connection, unless it renews a lease, and opens none until this is
 * called with false. */
void cv_keeper_rest(struct cv_keeper *keeper, bool rest);

struct cv_keeper_news {
    int64_t lease_end; /* monotonic: the lease is valid at least until then */
    bool lost;         /* another worker has the job */
    bool cancel;       /* the job has been canceled */
};
struct cv_keeper_news cv_keeper_read(struct cv_keeper *keeper, int slot);

/* Makes the keeper ask the database now whether a job is canceled or the worker must stop. */
void cv_keeper_ask(struct cv_keeper *keeper);

/* Whether an operator has asked this worker to finish its jobs and stop. */
bool cv_keeper_told_to_drain(struct cv_keeper *keeper);

/* Why the last database call or connection failed; "" if it succeeded. */
enum { CV_TROUBLE_SIZE = 256 };
void cv_keeper_trouble(struct cv_keeper *keeper, char text[CV_TROUBLE_SIZE]);
