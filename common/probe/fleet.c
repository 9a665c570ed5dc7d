#include "common/db/db.h"
#include "common/probe/probe_internal.h"

enum {
    CONNECT_MS = 5000,
    STATEMENT_MS = 10 * 1000,
    INTERVAL_MS = 15 * 1000,
    INTERVAL_LEAST_MS = 100,
    INTERVAL_MOST_MS = 60 * 60 * 1000,
};

struct cv_fleet {
    struct cv_probe *probe;
    int64_t interval_ms;
    struct cv_cancel *cancel;
    struct cv_background background;
    struct cv_db *db; /* used only by the thread */
};

/* ---- what is read ---------------------------------------------------------------------------- */

static const struct cv_metric fleet_up = CV_GAUGE(
    "cortana_fleet_up", "1 while the fleet's numbers could be read from the database.", NULL);
static const struct cv_metric depth =
    CV_GAUGE("cortana_fleet_jobs", "Jobs by what they wait for.", "job_type", "status");
static const struct cv_metric oldest =
    CV_GAUGE("cortana_fleet_oldest_seconds", "How long the oldest of them has waited.", "job_type",
             "status");
static const struct cv_metric workers =
    CV_GAUGE("cortana_fleet_workers", "Workers; stale: silent for longer than a lease.", "job_type",
             "state");
static const struct cv_metric slots =
    CV_GAUGE("cortana_fleet_slots", "Jobs that living workers may run at once.", "job_type");
static const struct cv_metric slots_busy =
    CV_GAUGE("cortana_fleet_slots_busy", "Jobs that living workers say they run.", "job_type");

/* A statement and its metrics. The first columns are the labels, named like the metric's labels. A
 * column named like the metric (without the prefix) is its value; null values are left out.
 * Workers that have not reported for long are left out. */
static const struct {
    const char *sql;
    struct {
        const struct cv_metric *metric;
        const char *column;
    } columns[2];
} reports[] = {
    {"SELECT job_type, status, depth, oldest_seconds FROM queue_depth",
     {{&depth, "depth"}, {&oldest, "oldest_seconds"}}},
    {"SELECT t AS job_type, state, count(*) AS workers"
     " FROM worker_overview, string_to_table(job_types, ',') AS t"
     " WHERE state <> 'stopped' AND silent_seconds < 3600 GROUP BY t, state",
     {{&workers, "workers"}}},
    {"SELECT t AS job_type, sum(slots) AS slots, sum(running) AS busy"
     " FROM worker_overview, string_to_table(job_types, ',') AS t"
     " WHERE state IN ('running', 'draining') GROUP BY t",
     {{&slots, "slots"}, {&slots_busy, "busy"}}},
};

static void read_rows(struct cv_metrics *numbers, const struct cv_db_result *rows,
                      const struct cv_metric *metric, const char *column)
{
    for (int row = 0; row < cv_db_rows(rows); row++) {
        const char *labels[CV_METRIC_LABELS_MAX] = {NULL};
        for (size_t i = 0; i < CV_METRIC_LABELS_MAX && metric->labels[i]; i++) {
            labels[i] = cv_db_text(rows, row, metric->labels[i]);
        }
        if (cv_db_text(rows, row, column)) {
            cv_metric_set(numbers, metric, labels, cv_db_double(rows, row, column, 0));
        }
    }
}

static int read_reports(struct cv_db *db, struct cv_metrics *numbers, struct cv_error *error)
{
    for (size_t i = 0; i < CV_COUNT(reports); i++) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        CV_TRY(cv_db_run(db, &rows, error, reports[i].sql));
        for (size_t j = 0; j < CV_COUNT(reports[i].columns) && reports[i].columns[j].metric; j++) {
            read_rows(numbers, rows, reports[i].columns[j].metric, reports[i].columns[j].column);
        }
    }
    return 0;
}

static int connect_database(struct cv_fleet *fleet, struct cv_error *error)
{
    if (fleet->db && cv_db_is_connected(fleet->db)) {
        return 0;
    }
    if (fleet->db) {
        return cv_db_reconnect(fleet->db, CONNECT_MS, error);
    }
    struct cv_db_params params = {
        .application_name = "cortana metrics",
        .cancel = fleet->cancel,
        .connect_timeout_ms = CONNECT_MS,
        .statement_timeout_ms = STATEMENT_MS,
    };
    return cv_db_open(&params, &fleet->db, error);
}

static void read_fleet(struct cv_fleet *fleet)
{
    cv_auto(cv_metrics_free) struct cv_metrics *numbers = NULL;
    struct cv_error error;
    if (cv_metrics_new(&numbers, &error) < 0) {
        return;
    }
    int result = connect_database(fleet, &error);
    result = result < 0 ? result : read_reports(fleet->db, numbers, &error);
    if (result < 0) { /* partial figures would look like complete ones */
        cv_metrics_free(cv_take(numbers));
        if (cv_metrics_new(&numbers, &error) < 0) {
            return;
        }
    }
    cv_metric_set(numbers, &fleet_up, NULL, result == 0);
    cv_probe_publish(fleet->probe, cv_take(numbers));
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool wait_until(struct cv_background *background, int64_t time_ms)
{
    CV_LOCK(&background->mutex);
    while (cv_monotonic_ms() < time_ms && cv_background_wait(background, time_ms)) {
    }
    return !background->is_stopping;
}

static void watch(void *argument)
{
    struct cv_fleet *fleet = argument;
    int64_t next = cv_monotonic_ms();
    while (wait_until(&fleet->background, next)) {
        next = cv_monotonic_ms() + fleet->interval_ms;
        read_fleet(fleet);
    }
}

static void fleet_free(struct cv_fleet *fleet)
{
    cv_background_stop(&fleet->background, fleet->cancel, 0);
    cv_db_close(fleet->db);
    cv_cancel_free(fleet->cancel);
    free(fleet);
}
CV_DEFINE_CLEANUP(struct cv_fleet *, fleet_free)

int cv_fleet_start(struct cv_probe *probe, struct cv_fleet **ret_fleet, struct cv_error *error)
{
    cv_auto(fleet_free) struct cv_fleet *fleet = calloc(1, sizeof(*fleet));
    CV_TRY_MEMORY(fleet, error, "the fleet's metrics");
    fleet->probe = probe;
    CV_TRY(cv_env_int("CORTANA_METRICS_FLEET_MS", INTERVAL_MS, INTERVAL_LEAST_MS, INTERVAL_MOST_MS,
                      &fleet->interval_ms, error));
    CV_TRY(cv_cancel_new(&fleet->cancel, error));
    CV_TRY(cv_background_start(&fleet->background, watch, fleet, error));
    *ret_fleet = cv_take(fleet);
    return 0;
}

void cv_fleet_stop(struct cv_fleet *fleet)
{
    if (fleet) {
        fleet_free(fleet);
    }
}
