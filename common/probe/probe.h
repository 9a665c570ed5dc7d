/* What others see of a running process: a small HTTP listener, and the numbers it shows.
 *
 *   GET /healthz   200 while the process' loop turns, else 503
 *   GET /readyz    200 while the process can take work, else 503 and why, in a line of plain text
 *   GET /metrics   the numbers, in Prometheus' text format 0.0.4
 *
 * The listener runs on a thread of its own, answers from memory, and asks neither the database nor
 * the store: no request makes the process wait. Whoever asks is bounded: GET and HEAD alone, one
 * request a connection, 8 KiB of header, 5 s of silence, and 128 connections, of which the oldest gives
 * way to the next: slow clients do not keep others from an answer. Nothing is
 * authenticated: bind it where only those that may read it can reach it. What it says is redacted
 * as log lines are.
 *
 * Every function takes NULL for a listener (or a set of numbers) that is not there and does nothing
 * then, so that no caller has to ask. All are thread-safe but for new, start, stop and free.
 */
#pragma once

#include "common/base/base.h"

/* ---- numbers --------------------------------------------------------------------------------- */

enum cv_metric_kind { CV_METRIC_COUNTER, CV_METRIC_GAUGE, CV_METRIC_HISTOGRAM };

enum { CV_METRIC_LABELS_MAX = 4 };

/* A family of numbers, as static data: its address is its identity. */
struct cv_metric {
    const char *name; /* "cortana_jobs_claimed_total"; the prefix and the form are checked */
    const char *help; /* one line */
    enum cv_metric_kind kind;
    const char *labels[CV_METRIC_LABELS_MAX]; /* names; NULL ends the list */
    const double *bounds; /* of a histogram's buckets, ascending, without the infinite one */
    size_t bound_count;
};

/* Values for a family's labels, in its order: CV_LABELS("ocr", "done"). */
#define CV_LABELS(...) ((const char *const[]){__VA_ARGS__})

/* A set of numbers. Numbers are never a reason to fail: what does not fit into memory, or would be
 * the 5,001st series, is left out and counted (cortana_series_dropped_total). */
struct cv_metrics;

CV_MUST_CHECK int cv_metrics_new(struct cv_metrics **ret_metrics, struct cv_error *error);
void cv_metrics_free(struct cv_metrics *metrics);
CV_DEFINE_CLEANUP(struct cv_metrics *, cv_metrics_free)

/* Adds to a counter or a gauge; makes the series at its first use, so that adding 0 shows it. A
 * counter takes no negative amounts. `labels` may be NULL for a family without any. */
void cv_metric_add(struct cv_metrics *metrics, const struct cv_metric *metric,
                   const char *const *labels, double amount);

/* Sets a gauge (or a counter that somebody else counts). */
void cv_metric_set(struct cv_metrics *metrics, const struct cv_metric *metric,
                   const char *const *labels, double value);

/* Sets a gauge to the larger of its value and this one. */
void cv_metric_raise(struct cv_metrics *metrics, const struct cv_metric *metric,
                     const char *const *labels, double value);

/* Counts a value in a histogram. */
void cv_metric_observe(struct cv_metrics *metrics, const struct cv_metric *metric,
                       const char *const *labels, double value);

/* Appends all of it in the text format. */
void cv_metrics_print(const struct cv_metrics *metrics, struct cv_buffer *text);

/* ---- listening -------------------------------------------------------------------------------- */

/* A listening TCP socket at "HOST:PORT" as cv_probe_params has it, not blocking; *ret_port is the port it has.
 * CV_ERROR_CONFIGURATION where it is no address or cannot be had. */
CV_MUST_CHECK int cv_probe_bind(const char *address, int *ret_fd, int *ret_port,
                                struct cv_error *error);

/* ---- the listener ---------------------------------------------------------------------------- */

struct cv_probe;

struct cv_probe_params {
    const char *program; /* for cortana_build_info; borrowed for the call */
    /* "HOST:PORT", HOST a number ("0.0.0.0", "127.0.0.1", "[::]", "[::1]") or empty: every address
     * of the machine. PORT 0: any free one, see cv_probe_port. */
    const char *address;
    int64_t stall_ms; /* a loop that has not turned for so long is taken to be stuck */
    /* /metrics shows the whole fleet, too (families cortana_fleet_…): queue_depth, job_flow, workers and
     * hosts are read from the database every CORTANA_METRICS_FLEET_MS (15000), on a thread and a
     * connection of its own. One or two processes of a fleet do this, not each: every reading costs
     * the database a count of what waits. */
    bool shows_fleet;
};

/* Listens, and logs at which port; *ret_probe is NULL where `address` is NULL or empty: nobody listens.
 * Not ready ("starting") until told otherwise. CV_ERROR_CONFIGURATION when the address is no
 * address or cannot be had. Signals are blocked in its thread as in the caller's: block what is
 * yours to handle first. */
CV_MUST_CHECK int cv_probe_start(const struct cv_probe_params *params, struct cv_probe **ret_probe,
                                 struct cv_error *error);

/* Ends the thread; requests under way are cut. */
void cv_probe_stop(struct cv_probe *probe);
CV_DEFINE_CLEANUP(struct cv_probe *, cv_probe_stop)

/* The port that is listened to. */
int cv_probe_port(const struct cv_probe *probe);

/* The loop has turned. */
void cv_probe_beat(struct cv_probe *probe);

/* Ready for work when `reason` is NULL, else not, and why: a line that a person can act on. */
void cv_probe_set_reason(struct cv_probe *probe, const char *reason);

/* Not ready from now on, whatever cv_probe_set_reason is told; safe in a signal handler. A SIGTERM or
 * SIGINT that is blocked and waits for the loop has the same effect meanwhile. */
void cv_probe_drain(struct cv_probe *probe);

/* The numbers of this process, which the listener owns and shows; NULL for no listener. */
struct cv_metrics *cv_probe_metrics(struct cv_probe *probe);

/* Shows these numbers too, in place of those of the call before; takes them over. Their families
 * must not be among those of the process. */
void cv_probe_publish(struct cv_probe *probe, struct cv_metrics *metrics);
