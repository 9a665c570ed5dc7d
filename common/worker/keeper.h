/* The keeper: a thread with a database connection of its own that keeps the leases of running jobs,
 * writes their progress and the worker's row. The loop tells it what runs and asks it what it has
 * learned; it never waits for the keeper, nor for the keeper's database. */
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
};

CV_MUST_CHECK int cv_keeper_start(const struct cv_keeper_params *params,
                                  struct cv_keeper **ret_keeper, struct cv_error *error);

/* Writes "stopped" into the worker's row if the database is there, and ends the thread. */
void cv_keeper_stop(struct cv_keeper *keeper);

/* A job begins in a slot. Its lease is good until `lease_end`, on the monotonic clock. */
void cv_keeper_hold(struct cv_keeper *keeper, int slot, const struct cv_job *job,
                    int64_t lease_end);
/* The slot is free again. A call that is under way about its job may still end, and changes
 * nothing: the lease's token is spent. */
void cv_keeper_let_go(struct cv_keeper *keeper, int slot);

/* Copied; written to the database soon. */
void cv_keeper_progress(struct cv_keeper *keeper, int slot, const struct cv_progress *progress);

void cv_keeper_draining(struct cv_keeper *keeper);

/* Whether it has its connection and the worker its row, so that a new lease would be kept; there is
 * news when this changes. */
bool cv_keeper_can_keep(struct cv_keeper *keeper);

/* True: it gives its connection back, unless it keeps a lease, and asks for none until false. */
void cv_keeper_rest(struct cv_keeper *keeper, bool rest);

struct cv_keeper_news {
    int64_t lease_end; /* monotonic: the lease is ours at least until then */
    bool lost;         /* another has the job */
    bool cancel;       /* somebody wants it stopped */
};
struct cv_keeper_news cv_keeper_look(struct cv_keeper *keeper, int slot);

/* Asks the database now whether a job is canceled or the worker is to go. */
void cv_keeper_ask(struct cv_keeper *keeper);

/* Somebody wants this worker to finish what it has and go. */
bool cv_keeper_told_to_drain(struct cv_keeper *keeper);

/* Why the last call to the database, or connecting to it, failed; "" when it did not. */
enum { CV_TROUBLE_SIZE = 256 };
void cv_keeper_trouble(struct cv_keeper *keeper, char text[CV_TROUBLE_SIZE]);

/* Becomes readable when there is news; cv_keeper_drain makes it quiet again. */
int cv_keeper_fd(const struct cv_keeper *keeper);
void cv_keeper_drain(struct cv_keeper *keeper);
