/* queue-bench CONNINFO   how fast no-op jobs are drained by one process, and how soon a waiting
 * worker starts a job that is enqueued; the database is migrated and otherwise idle. */
#include "common/queue/queue.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

enum {
    LEASE_MS = 60 * 1000,
    BATCH = 100,
    WARM_UP_JOBS = 2000,
    BATCH_JOBS = 20000,
    SINGLE_JOBS = 2000,
    LARGE_BATCH = 500,
    CONNECTIONS_MAX = 4,
    ENQUEUED_SINGLY = 1000,
    ENQUEUED_IN_BATCHES = 20000,
    ENQUEUE_BATCH = 1000,
    LATENCY_JOBS = 500,
    PATIENCE_MS = 10 * 1000,
};

static const char drain_type[] = "bench_drain";
static const char wake_type[] = "bench_wake";

static double now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void print_figure(const char *name, const char *unit, double value, const char *better)
{
    printf("{\"suite\": \"queue\", \"name\": \"%s\", \"unit\": \"%s\", \"ours\": %.3f, "
           "\"peer\": null, \"peer_name\": null, \"ratio\": %.3f, \"goal\": null, "
           "\"better\": \"%s\"}\n",
           name, unit, value, value, better);
    (void)fflush(stdout);
}

static int open_connection(const char *conninfo, struct cv_db **ret_db, struct cv_error *error)
{
    return cv_db_open(&(struct cv_db_params){.conninfo = conninfo}, ret_db, error);
}

static int add_types(struct cv_db *db, struct cv_error *error)
{
    return cv_db_run(db, NULL, error,
                     "INSERT INTO job_types (name, description)"
                     " VALUES ($1, 'benchmark'), ($2, 'benchmark') ON CONFLICT DO NOTHING",
                     drain_type, wake_type);
}

static int fill(struct cv_db *db, int count, struct cv_error *error)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", count);
    int result = cv_db_run(db, NULL, error,
                           "INSERT INTO jobs (job_type, priority)"
                           " SELECT $1, 5 FROM generate_series(1, $2::int)",
                           drain_type, text);
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

static int drain_connection(struct drainer *drainer, struct cv_db *db)
{
    while (true) {
        cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
        size_t completed = 0;
        int result = cv_queue_claim(db, "bench", drain_type, drainer->limit, LEASE_MS, &list,
                                    &drainer->error);
        if (result == CV_QUEUE_EMPTY) {
            return 0;
        }
        if (result == 0) {
            result = cv_queue_complete_batch(db, &list, &completed, &drainer->error);
        }
        if (result) {
            return result;
        }
        drainer->drained += completed;
    }
}

static void *drain_thread(void *opaque)
{
    struct drainer *drainer = opaque;
    cv_auto(cv_db_close) struct cv_db *db = NULL;
    drainer->result = open_connection(drainer->conninfo, &db, &drainer->error);
    if (drainer->result == 0) {
        drainer->result = drain_connection(drainer, db);
    }
    return NULL;
}

/* Connecting counts, as it does for the peers. */
static int drain(const char *conninfo, int connections, int limit, int expected, double *ret_rate,
                 struct cv_error *error)
{
    struct drainer drainers[CONNECTIONS_MAX] = {0};
    pthread_t threads[CONNECTIONS_MAX];
    double start = now_ms();
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
    if (result == 0 && drained != (size_t)expected) {
        return cv_fail(error, CV_ERROR_INTERNAL, "drained %zu of %d jobs", drained, expected);
    }
    *ret_rate = expected / ((now_ms() - start) / 1000);
    return result;
}

static int measure_drain(struct cv_db *db, const char *conninfo, struct cv_error *error)
{
    static const struct {
        const char *name;
        int connections;
        int limit;
        int count;
    } runs[] = {
        {NULL, 1, BATCH, WARM_UP_JOBS},
        {"no-op jobs drained, 1 connection, batches of 100", 1, BATCH, BATCH_JOBS},
        {"no-op jobs drained, 1 connection, batches of 500", 1, LARGE_BATCH, BATCH_JOBS},
        {"no-op jobs drained, 4 connections, batches of 500", CONNECTIONS_MAX, LARGE_BATCH,
         BATCH_JOBS},
        {"no-op jobs drained, 1 connection, one by one", 1, 1, SINGLE_JOBS},
        {"no-op jobs drained, 4 connections, one by one", CONNECTIONS_MAX, 1, SINGLE_JOBS},
    };
    for (size_t i = 0; i < CV_COUNT(runs); i++) {
        double rate = 0;
        int result = fill(db, runs[i].count, error);
        if (result == 0) {
            result =
                drain(conninfo, runs[i].connections, runs[i].limit, runs[i].count, &rate, error);
        }
        if (result) {
            return result;
        }
        if (runs[i].name) {
            print_figure(runs[i].name, "jobs/s", rate, "higher");
        }
    }
    return 0;
}

static int enqueue_batch(struct cv_db *db, struct cv_error *error)
{
    char size[16];
    (void)snprintf(size, sizeof(size), "%d", ENQUEUE_BATCH);
    return cv_db_run(
        db, NULL, error,
        "SELECT count(*) FROM enqueue_jobs($1, array_fill('{}'::jsonb, ARRAY[$2::int]))",
        drain_type, size);
}

static int measure_enqueue(struct cv_db *db, struct cv_error *error)
{
    int result = 0;
    double start = now_ms();
    for (int i = 0; result == 0 && i < ENQUEUED_SINGLY; i++) {
        char id[CV_UUID_SIZE];
        struct cv_enqueue_params params = {.job_type = drain_type};
        result = cv_queue_enqueue(db, &params, id, error);
    }
    if (result) {
        return result;
    }
    print_figure("enqueued, one by one", "jobs/s", ENQUEUED_SINGLY / ((now_ms() - start) / 1000),
                 "higher");
    start = now_ms();
    for (int i = 0; result == 0 && i < ENQUEUED_IN_BATCHES; i += ENQUEUE_BATCH) {
        result = enqueue_batch(db, error);
    }
    if (result) {
        return result;
    }
    print_figure("enqueued, by thousands", "jobs/s",
                 ENQUEUED_IN_BATCHES / ((now_ms() - start) / 1000), "higher");
    return cv_db_script(db, "DELETE FROM jobs WHERE status = 'queued'", error);
}

/* A worker with nothing to do: waits for a notification, claims, notes the time, completes. */
struct sleeper {
    struct cv_db *db;
    sem_t started;
    double started_at_ms;
    int result;
    struct cv_error error;
};

static int wait_for_work(struct cv_db *db, struct cv_error *error)
{
    while (true) {
        cv_auto_free char *channel = NULL;
        cv_auto_free char *payload = NULL;
        int result = cv_db_notification(db, &channel, &payload, error);
        if (result) {
            return result < 0 ? result : 0;
        }
        struct pollfd polled = {.fd = cv_db_fd(db), .events = POLLIN};
        if (poll(&polled, 1, PATIENCE_MS) == 0) {
            return cv_fail(error, CV_ERROR_TIMEOUT, "no notification has come");
        }
    }
}

static int work_once(struct sleeper *sleeper)
{
    int result = CV_QUEUE_EMPTY;
    cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
    while (result == CV_QUEUE_EMPTY) { /* a notification may belong to the job before */
        result = wait_for_work(sleeper->db, &sleeper->error);
        if (result == 0) {
            result = cv_queue_claim(sleeper->db, "bench", wake_type, 1, LEASE_MS, &list,
                                    &sleeper->error);
        }
    }
    sleeper->started_at_ms = now_ms();
    return result ? result
                  : cv_queue_complete(sleeper->db, &list.jobs[0], NULL, NULL, &sleeper->error);
}

static void *sleep_and_work(void *opaque)
{
    struct sleeper *sleeper = opaque;
    for (int i = 0; i < LATENCY_JOBS && sleeper->result == 0; i++) {
        sleeper->result = work_once(sleeper);
        (void)sem_post(&sleeper->started);
    }
    return NULL;
}

static int enqueue_each(struct cv_db *db, struct sleeper *sleeper, double *latencies,
                        struct cv_error *error)
{
    for (int i = 0; i < LATENCY_JOBS; i++) {
        char id[CV_UUID_SIZE];
        struct cv_enqueue_params params = {.job_type = wake_type};
        double enqueued_at_ms = now_ms();
        int result = cv_queue_enqueue(db, &params, id, error);
        if (result) {
            return result;
        }
        while (sem_wait(&sleeper->started) && errno == EINTR) {
        }
        if (sleeper->result) {
            *error = sleeper->error;
            return sleeper->result;
        }
        latencies[i] = sleeper->started_at_ms - enqueued_at_ms;
    }
    return 0;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static int measure_latency(struct cv_db *db, const char *conninfo, struct cv_error *error)
{
    cv_auto(cv_db_close) struct cv_db *worker_db = NULL;
    int result = open_connection(conninfo, &worker_db, error);
    if (result == 0) {
        result = cv_db_listen(worker_db, "cv_jobs_bench_wake", error);
    }
    if (result) {
        return result;
    }
    struct sleeper sleeper = {.db = worker_db};
    if (sem_init(&sleeper.started, 0, 0)) {
        return cv_fail_errno(error, errno, "sem_init");
    }
    pthread_t thread;
    int error_number = pthread_create(&thread, NULL, sleep_and_work, &sleeper);
    if (error_number) {
        return cv_fail_errno(error, error_number, "pthread_create");
    }
    static double latencies[LATENCY_JOBS];
    result = enqueue_each(db, &sleeper, latencies, error);
    (void)pthread_join(thread, NULL);
    (void)sem_destroy(&sleeper.started);
    if (result) {
        return result;
    }
    qsort(latencies, LATENCY_JOBS, sizeof(*latencies), compare);
    print_figure("enqueue to start, median", "ms", latencies[LATENCY_JOBS / 2], "lower");
    print_figure("enqueue to start, p99", "ms", latencies[LATENCY_JOBS * 99 / 100], "lower");
    return 0;
}

static int run(const char *conninfo, struct cv_error *error)
{
    cv_auto(cv_db_close) struct cv_db *db = NULL;
    int result = open_connection(conninfo, &db, error);
    if (result == 0) {
        result = add_types(db, error);
    }
    if (result == 0) {
        result = measure_drain(db, conninfo, error);
    }
    result = result ? result : measure_enqueue(db, error);
    return result ? result : measure_latency(db, conninfo, error);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: queue-bench CONNINFO\n");
        return CV_EXIT_USAGE;
    }
    struct cv_error error;
    if (run(argv[1], &error)) {
        cv_log_error(&error, "queue-bench");
        return CV_EXIT_PERMANENT;
    }
    return CV_EXIT_DONE;
}
