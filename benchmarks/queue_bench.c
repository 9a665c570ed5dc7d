/* queue-bench CONNINFO   how fast no-op jobs are drained by one process, and how soon a waiting
 * worker starts a job that is enqueued; the database is migrated and otherwise idle.
 * queue-bench CONNINFO stock N | share MOMENT   N jobs without status events; one of the processes
 * that drain them together from a moment on (ms since 1970). */
#include "benchmarks/queue_drain.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

enum {
    LEASE_MS = 60 * 1000,
    ENQUEUED_SINGLY = 1000,
    ENQUEUED_IN_BATCHES = 20000,
    ENQUEUE_BATCH = 1000,
    LATENCY_JOBS = 500,
    PATIENCE_MS = 10 * 1000,
};

static const char wake_type[] = "bench_wake";

static int add_types(struct cv_db *db, struct cv_error *error)
{
    return cv_db_run(db, NULL, error,
                     "INSERT INTO job_types (name, description)"
                     " VALUES ($1, 'benchmark'), ($2, 'benchmark') ON CONFLICT DO NOTHING",
                     queue_drain_type, wake_type);
}

static int enqueue_batch(struct cv_db *db, struct cv_error *error)
{
    char size[16];
    (void)snprintf(size, sizeof(size), "%d", ENQUEUE_BATCH);
    return cv_db_run(
        db, NULL, error,
        "SELECT count(*) FROM enqueue_jobs($1, array_fill('{}'::jsonb, ARRAY[$2::int]))",
        queue_drain_type, size);
}

static int measure_batches(struct cv_db *db, const char *name, struct cv_error *error)
{
    double start = queue_bench_now_ms();
    for (int i = 0; i < ENQUEUED_IN_BATCHES; i += ENQUEUE_BATCH) {
        int result = enqueue_batch(db, error);
        if (result) {
            return result;
        }
    }
    queue_bench_print(name, "jobs/s", ENQUEUED_IN_BATCHES / ((queue_bench_now_ms() - start) / 1000),
                      "higher");
    return 0;
}

static int enqueue(struct cv_db *db, const char *job_type, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    return cv_db_query_prepared(db, CV_DB_STATEMENT("SELECT enqueue_job($1, '{}')", job_type),
                                &rows, error);
}

static int measure_enqueue(struct cv_db *db, struct cv_error *error)
{
    int result = 0;
    double start = queue_bench_now_ms();
    for (int i = 0; result == 0 && i < ENQUEUED_SINGLY; i++) {
        result = enqueue(db, queue_drain_type, error);
    }
    if (result) {
        return result;
    }
    queue_bench_print("enqueued, one by one", "jobs/s",
                      ENQUEUED_SINGLY / ((queue_bench_now_ms() - start) / 1000), "higher");
    result = measure_batches(db, "enqueued, by thousands", error);
    if (result == 0) {
        result = queue_drain_set_events(db, false, error);
    }
    if (result == 0) {
        result = measure_batches(db, "enqueued, by thousands, no status events", error);
    }
    if (result == 0) {
        result = queue_drain_set_events(db, true, error);
    }
    return result ? result : cv_db_script(db, "DELETE FROM jobs WHERE status = 'queued'", error);
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
            const struct cv_claim_params params = {"bench", wake_type, 1, LEASE_MS};
            result = cv_queue_claim(sleeper->db, &params, &list, &sleeper->error);
        }
    }
    sleeper->started_at_ms = queue_bench_now_ms();
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
        double enqueued_at_ms = queue_bench_now_ms();
        int result = enqueue(db, wake_type, error);
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
    int result = queue_bench_connect(conninfo, &worker_db, error);
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
    queue_bench_print("enqueue to start, median", "ms", latencies[LATENCY_JOBS / 2], "lower");
    queue_bench_print("enqueue to start, p99", "ms", latencies[LATENCY_JOBS * 99 / 100], "lower");
    return 0;
}

static int run(const char *conninfo, const char *verb, const char *number, struct cv_error *error)
{
    cv_auto(cv_db_close) struct cv_db *db = NULL;
    int result = queue_bench_connect(conninfo, &db, error);
    if (result == 0) {
        result = add_types(db, error);
    }
    if (result == 0 && verb) {
        return strcmp(verb, "stock") == 0
                   ? queue_drain_stock(db, (int)strtol(number, NULL, 10), error)
                   : queue_drain_share(conninfo, strtod(number, NULL), error);
    }
    if (result == 0) {
        result = queue_drain_measure(db, conninfo, error);
    }
    result = result ? result : measure_enqueue(db, error);
    return result ? result : measure_latency(db, conninfo, error);
}

int main(int argc, char **argv)
{
    bool is_part = argc == 4 && (strcmp(argv[2], "stock") == 0 || strcmp(argv[2], "share") == 0);
    if (argc != 2 && !is_part) {
        (void)fprintf(stderr, "usage: queue-bench CONNINFO [stock N | share MOMENT]\n");
        return CV_EXIT_USAGE;
    }
    struct cv_error error;
    if (run(argv[1], is_part ? argv[2] : NULL, is_part ? argv[3] : NULL, &error)) {
        cv_log_error(&error, "queue-bench");
        return CV_EXIT_PERMANENT;
    }
    return CV_EXIT_DONE;
}
