/* Draining: no-op jobs by several connections of one process, or by several processes. */
#include "benchmarks/queue_drain.h"

#include <pthread.h>
#include <time.h>

enum {
    LEASE_MS = 60 * 1000,
    BATCH = 100,
    LARGE_BATCH = 500,
    WARM_UP_JOBS = 2000,
    BATCH_JOBS = 20000,
    SINGLE_JOBS = 2000,
    CONNECTIONS_MAX = 4,
    TENANTS = 100,
};

const char queue_drain_type[] = "bench_drain";

double queue_bench_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void queue_bench_print(const char *name, const char *unit, double value, const char *better)
{
    printf("{\"suite\": \"queue\", \"name\": \"%s\", \"unit\": \"%s\", \"ours\": %.3f, "
           "\"peer\": null, \"peer_name\": null, \"ratio\": %.3f, \"goal\": null, "
           "\"better\": \"%s\"}\n",
           name, unit, value, value, better);
    (void)fflush(stdout);
}

int queue_bench_connect(const char *conninfo, struct cv_db **ret_db, struct cv_error *error)
{
    return cv_db_open(&(struct cv_db_params){.conninfo = conninfo}, ret_db, error);
}

/* `count` jobs, of as many tenants; 0: of none. */
static int fill(struct cv_db *db, int count, int tenants, struct cv_error *error)
{
    char each[16];
    char owners[16];
    (void)snprintf(each, sizeof(each), "%d", tenants ? count / tenants : count);
    (void)snprintf(owners, sizeof(owners), "%d", tenants);
    int result = cv_db_run(db, NULL, error,
                           "SELECT count(j) FROM generate_series(1, greatest($3::int, 1)) AS t,"
                           " LATERAL enqueue_jobs($1, array_fill('{}'::jsonb, ARRAY[$2::int]),"
                           "     p_tenant_id => CASE WHEN $3::int > 0"
                           "                    THEN lpad(t::text, 32, '0')::uuid END) AS j",
                           queue_drain_type, each, owners);
    return result ? result : cv_db_script(db, "VACUUM ANALYZE jobs", error);
}

/* One of the connections that drain together. */
struct drainer {
    const char *conninfo;
    int limit;
    size_t drained;
    int result;
    struct cv_error error;
};

/* *ret_rows, to be freed, has one row: "completed", how many of the tokens were still valid. */
static int complete_jobs(struct cv_db *db, const struct cv_job_list *list,
                         struct cv_db_result **ret_rows, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer ids = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer tokens = CV_BUFFER_INIT;
    cv_buffer_text(&ids, "{");
    cv_buffer_text(&tokens, "{");
    for (size_t i = 0; i < list->count; i++) {
        cv_db_array_append(&ids, list->jobs[i].id);
        cv_db_array_append(&tokens, cv_db_number(list->jobs[i].token).text);
    }
    cv_buffer_text(&ids, "}");
    cv_buffer_text(&tokens, "}");
    CV_TRY_MEMORY(!ids.failed && !tokens.failed, error, "jobs");
    return cv_db_query_prepared(
        db,
        CV_DB_STATEMENT("SELECT complete_jobs($1::uuid[], $2::bigint[]) AS completed", ids.data,
                        tokens.data),
        ret_rows, error);
}

static int drain_connection(struct drainer *drainer, struct cv_db *db)
{
    while (true) {
        cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        const struct cv_claim_params params = {"bench", queue_drain_type, drainer->limit, LEASE_MS};
        int result = cv_queue_claim(db, &params, &list, &drainer->error);
        if (result == CV_QUEUE_EMPTY) {
            return 0;
        }
        if (result == 0) {
            result = complete_jobs(db, &list, &rows, &drainer->error);
        }
        if (result) {
            return result;
        }
        drainer->drained += (size_t)cv_db_int(rows, 0, "completed", 0);
    }
}

static void *drain_thread(void *opaque)
{
    struct drainer *drainer = opaque;
    cv_auto(cv_db_close) struct cv_db *db = NULL;
    drainer->result = queue_bench_connect(drainer->conninfo, &db, &drainer->error);
    if (drainer->result == 0) {
        drainer->result = drain_connection(drainer, db);
    }
    return NULL;
}

static int drain_together(const char *conninfo, int connections, int limit, size_t *ret_drained,
                          struct cv_error *error)
{
    struct drainer drainers[CONNECTIONS_MAX] = {0};
    pthread_t threads[CONNECTIONS_MAX];
    for (int i = 0; i < connections; i++) {
        drainers[i].conninfo = conninfo;
        drainers[i].limit = limit;
        int error_number = pthread_create(&threads[i], NULL, drain_thread, &drainers[i]);
        if (error_number) { /* those that run end with the process */
            return cv_fail_errno(error, error_number, "pthread_create");
        }
    }
    size_t drained = 0;
    int result = 0;
    for (int i = 0; i < connections; i++) {
        (void)pthread_join(threads[i], NULL);
        drained += drainers[i].drained;
        if (drainers[i].result) {
            *error = drainers[i].error;
            result = drainers[i].result;
        }
    }
    *ret_drained = drained;
    return result;
}

/* Connecting counts, as it does for the peers. */
static int drain(const char *conninfo, int connections, int limit, int expected, double *ret_rate,
                 struct cv_error *error)
{
    double start = queue_bench_now_ms();
    size_t drained = 0;
    int result = drain_together(conninfo, connections, limit, &drained, error);
    if (result == 0 && drained != (size_t)expected) {
        return cv_fail(error, CV_ERROR_INTERNAL, "drained %zu of %d jobs", drained, expected);
    }
    *ret_rate = expected / ((queue_bench_now_ms() - start) / 1000);
    return result;
}

int queue_drain_set_events(struct cv_db *db, bool told, struct cv_error *error)
{
    return cv_db_run(db, NULL, error,
                     "UPDATE job_types SET status_events = $2::boolean WHERE name = $1",
                     queue_drain_type, told ? "true" : "false");
}

/* Defaults tell every change of status as an event; the two that do not are the best that settings
 * can do. */
int queue_drain_measure(struct cv_db *db, const char *conninfo, struct cv_error *error)
{
    static const struct {
        const char *name;
        int connections;
        int limit;
        int count;
        int tenants;
        bool is_silent;
    } runs[] = {
        {NULL, 1, BATCH, WARM_UP_JOBS, 0, false},
        {"drained, 1 connection, one by one", 1, 1, SINGLE_JOBS, 0, false},
        {"drained, 4 connections, one by one", CONNECTIONS_MAX, 1, SINGLE_JOBS, 0, false},
        {"drained, 1 connection, batches of 100", 1, BATCH, BATCH_JOBS, 0, false},
        {"drained, 1 connection, batches of 500", 1, LARGE_BATCH, BATCH_JOBS, 0, false},
        {"drained, 4 connections, batches of 500", CONNECTIONS_MAX, LARGE_BATCH, BATCH_JOBS, 0,
         false},
        {"drained, 4 connections, batches of 500, no status events", CONNECTIONS_MAX, LARGE_BATCH,
         BATCH_JOBS, 0, true},
        {"drained, 4 connections, batches of 500, 100 tenants", CONNECTIONS_MAX, LARGE_BATCH,
         BATCH_JOBS, TENANTS, false},
    };
    int result = 0;
    for (size_t i = 0; i < CV_COUNT(runs) && result == 0; i++) {
        double rate = 0;
        result = queue_drain_set_events(db, !runs[i].is_silent, error);
        result = result ? result : fill(db, runs[i].count, runs[i].tenants, error);
        if (result == 0) {
            result =
                drain(conninfo, runs[i].connections, runs[i].limit, runs[i].count, &rate, error);
        }
        if (result == 0 && runs[i].name) {
            queue_bench_print(runs[i].name, "jobs/s", rate, "higher");
        }
    }
    return result ? result : queue_drain_set_events(db, true, error);
}

int queue_drain_stock(struct cv_db *db, int count, struct cv_error *error)
{
    int result = queue_drain_set_events(db, false, error);
    return result ? result : fill(db, count, 0, error);
}

static double wall_clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int queue_drain_share(const char *conninfo, double moment_ms, struct cv_error *error)
{
    time_t seconds = (time_t)(moment_ms / 1e3);
    struct timespec moment = {.tv_sec = seconds,
                              .tv_nsec = (long)((moment_ms - (double)seconds * 1e3) * 1e6)};
    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &moment, NULL) == EINTR) {
    }
    double start = wall_clock_ms();
    size_t drained = 0;
    int result = drain_together(conninfo, 1, LARGE_BATCH, &drained, error);
    if (result == 0) {
        printf("{\"done\": %zu, \"start\": %.3f, \"end\": %.3f}\n", drained, start,
               wall_clock_ms());
    }
    return result;
}
