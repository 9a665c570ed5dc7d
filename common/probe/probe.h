/* Health probes and metrics: a small HTTP listener.
 *
 *   GET /healthz   200 while the process' main loop runs, else 503
 *   GET /readyz    200 while the process can take work, else 503 and the reason in one line
 *   GET /metrics   the metrics, in Prometheus' text format 0.0.4
 *
 * The listener has its own thread and answers from memory, without database or store, so that no
 * request delays the process. Clients are limited: only GET and HEAD, one request per connection,
 * 8 KiB of header, 5 s of silence, and 128 connections. When there are more, the oldest is closed,
 * so that slow clients do not block others. There is no authentication: bind it to an address that
 * only authorised clients can reach. Answers are redacted like log lines.
 *
 * Every function accepts NULL for the listener or the metrics, and then does nothing. All functions
 * except new, start, stop and free are thread-safe.
 */
#pragma once

#include "common/base/base.h"

/* ---- numbers --------------------------------------------------------------------------------- */

enum cv_metric_kind { CV_METRIC_COUNTER, CV_METRIC_GAUGE, CV_METRIC_HISTOGRAM };

enum { CV_METRIC_LABELS_MAX = 4 };

/* A metric family, as static data: its address is its identity. */
struct cv_metric {
    const char *name; /* "cortana_jobs_finished_total"; the prefix and the form are checked */
    const char *help; /* one line */
    enum cv_metric_kind kind;
    const char *labels[CV_METRIC_LABELS_MAX]; /* names; NULL ends the list */
    const double *bounds; /* of a histogram's buckets, ascending, without the infinite one */
    size_t bound_count;
};

/* Initializers of a family. The names of its labels follow the help text; NULL when it has none. */
#define CV_COUNTER(metric_name, metric_help, ...)                                            \
    {                                                                                        \
        .name = (metric_name), .help = (metric_help), .kind = CV_METRIC_COUNTER, .labels = { \
            __VA_ARGS__                                                                      \
        }                                                                                    \
    }
#define CV_GAUGE(metric_name, metric_help, ...)                                            \
    {                                                                                      \
        .name = (metric_name), .help = (metric_help), .kind = CV_METRIC_GAUGE, .labels = { \
            __VA_ARGS__                                                                    \
        }                                                                                  \
    }
#define CV_HISTOGRAM(metric_name, metric_help, metric_bounds, ...)                                 \
    {                                                                                              \
        .name = (metric_name), .help = (metric_help), .kind = CV_METRIC_HISTOGRAM,                 \
        .labels = {__VA_ARGS__}, .bounds = (metric_bounds), .bound_count = CV_COUNT(metric_bounds) \
    }

/* Values of a family's labels, in the order of its names: CV_LABELS("ocr", "done"). */
#define CV_LABELS(...) ((const char *const[]){__VA_ARGS__})

/* A set of metrics. Metrics never cause a failure: series for which there is no memory, and those
 * beyond 5,000, are left out and counted (cortana_series_dropped_total). */
struct cv_metrics;

CV_MUST_CHECK int cv_metrics_new(struct cv_metrics **ret_metrics, struct cv_error *error);
void cv_metrics_free(struct cv_metrics *metrics);
CV_DEFINE_CLEANUP(struct cv_metrics *, cv_metrics_free)

/* Adds to a counter or a gauge. The first call creates the series, so that adding 0 shows it.
 * Amounts for a counter are not negative. `labels` may be NULL for a family without labels. */
void cv_metric_add(struct cv_metrics *metrics, const struct cv_metric *metric,
                   const char *const *labels, double amount);

/* Sets a gauge, or a counter whose value is counted elsewhere. */
void cv_metric_set(struct cv_metrics *metrics, const struct cv_metric *metric,
                   const char *const *labels, double value);

/* Sets a gauge to `value` if that is larger than its current value. */
void cv_metric_raise(struct cv_metrics *metrics, const struct cv_metric *metric,
                     const char *const *labels, double value);

/* Counts a value in a histogram. */
void cv_metric_observe(struct cv_metrics *metrics, const struct cv_metric *metric,
                       const char *const *labels, double value);

/* Appends all metrics in the text format. */
void cv_metrics_print(const struct cv_metrics *metrics, struct cv_buffer *text);

/* ---- listening -------------------------------------------------------------------------------- */

/* Opens a non-blocking listening TCP socket at "HOST:PORT" (see cv_probe_params.address);
 * *ret_port is its port. CV_ERROR_CONFIGURATION when `address` is not an address or cannot be
 * bound. */
CV_MUST_CHECK int cv_probe_bind(const char *address, int *ret_fd, int *ret_port,
                                struct cv_error *error);

/* ---- the listener ---------------------------------------------------------------------------- */

struct cv_probe;

struct cv_probe_params {
    const char *program; /* for cortana_build_info; borrowed for the call */
    /* "HOST:PORT", HOST a number ("0.0.0.0", "127.0.0.1", "[::]", "[::1]") or empty: every address
     * of the machine. PORT 0: any free one. */
    const char *address;
    int64_t stall_ms; /* /healthz fails when cv_probe_beat was not called for this long */
    /* /metrics also shows the whole fleet (families cortana_fleet_…): queue_depth and
     * workers are read from the database every CORTANA_METRICS_FLEET_MS (15000), in a
     * thread with its own connection. Only one or two processes of a fleet should do this, because
     * each reading makes the database count all waiting jobs. */
    bool shows_fleet;
};

/* Starts to listen, and logs the port. *ret_probe is NULL when `address` is NULL or empty. Not
 * ready ("starting") until cv_probe_set_reason is called. CV_ERROR_CONFIGURATION when the address
 * is invalid or cannot be bound. The thread inherits the caller's signal mask: block the signals
 * that the caller handles before this call. */
CV_MUST_CHECK int cv_probe_start(const struct cv_probe_params *params, struct cv_probe **ret_probe,
                                 struct cv_error *error);

/* Ends the thread and aborts open requests. */
void cv_probe_stop(struct cv_probe *probe);
CV_DEFINE_CLEANUP(struct cv_probe *, cv_probe_stop)

/* Reports that the main loop is running; to be called in each round. */
void cv_probe_beat(struct cv_probe *probe);

/* Sets the state of /readyz: ready when `reason` is NULL, else not ready with this reason, a line
 * that a person can act on. */
void cv_probe_set_reason(struct cv_probe *probe, const char *reason);

/* Makes the process not ready from now on, whatever cv_probe_set_reason says; safe in a signal
 * handler. A SIGTERM or SIGINT that is blocked and pending has the same effect. */
void cv_probe_drain(struct cv_probe *probe);

/* The metrics of this process, owned and shown by the listener; NULL without a listener. */
struct cv_metrics *cv_probe_metrics(struct cv_probe *probe);

/* Also shows these metrics, replacing those of the previous call. Takes ownership. Their families
 * must not be among those of the process. */
void cv_probe_publish(struct cv_probe *probe, struct cv_metrics *metrics);
