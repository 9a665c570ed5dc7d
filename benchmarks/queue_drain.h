/* What the parts of queue-bench share. */
#pragma once

#include "common/queue/queue.h"

extern const char queue_drain_type[];

/* The monotonic clock. */
double queue_bench_now_ms(void);

/* One figure as a line of JSON on standard output. */
void queue_bench_print(const char *name, const char *unit, double value, const char *better);

CV_MUST_CHECK int queue_bench_connect(const char *conninfo, struct cv_db **ret_db,
                                      struct cv_error *error);

/* Whether changes of status of the benchmark's jobs are told as events. */
CV_MUST_CHECK int queue_drain_set_events(struct cv_db *db, bool told, struct cv_error *error);

/* Fills, drains and prints, for several numbers of connections and sizes of batches. */
CV_MUST_CHECK int queue_drain_measure(struct cv_db *db, const char *conninfo,
                                      struct cv_error *error);

/* `count` jobs whose changes of status are no events, ready to be drained. */
CV_MUST_CHECK int queue_drain_stock(struct cv_db *db, int count, struct cv_error *error);

/* Waits for a moment (ms since 1970), drains what there is by one connection, for there are as many
 * processes as is good, and prints how many and from when to when. */
CV_MUST_CHECK int queue_drain_share(const char *conninfo, double moment_ms, struct cv_error *error);
