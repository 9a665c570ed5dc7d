#include "common/worker/job_logs.h"

#include "common/store/store.h"

#include <string.h>

enum {
    WAITING_MAX = 64, /* queued logs; a log has about 10 KiB */
    LAST_WRITES_MS = 3 * 1000,
};

struct waiting {
    char key[CV_STORE_JOB_LOG_KEY_SIZE];
    char *text;
};

struct cv_job_logs {
    struct cv_store *store; /* used by the thread only */
    struct cv_cancel *cancel;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects everything below */
    pthread_cond_t changed;
    bool is_stopping, is_idle;
    bool store_fails; /* logged once, until the store works again */
    struct waiting waiting[WAITING_MAX];
    size_t first, count;
};

static void logs_free(struct cv_job_logs *logs)
{
    for (size_t i = 0; i < logs->count; i++) {
        free(logs->waiting[(logs->first + i) % WAITING_MAX].text);
    }
    cv_store_close(logs->store);
    cv_cancel_free(logs->cancel);
    cv_thread_locks_deinit(&logs->mutex, &logs->changed);
    free(logs);
}
CV_DEFINE_CLEANUP(struct cv_job_logs *, logs_free)

static void put(struct cv_job_logs *logs, const struct waiting *log)
{
    const struct cv_new_object object = {
        .key = log->key,
        .data = log->text,
        .size = strlen(log->text),
    };
    struct cv_object_info info;
    struct cv_error error;
    int result = cv_store_put(logs->store, &object, &info, &error);
    if (result != 0 && !logs->store_fails) {
        cv_log(CV_LOG_WARN, "logs of jobs are not written: %s", error.message);
    }
    logs->store_fails = result != 0;
}

static void *run(void *opaque)
{
    struct cv_job_logs *logs = opaque;
    (void)pthread_mutex_lock(&logs->mutex);
    while (!logs->is_stopping || logs->count > 0) {
        if (logs->count == 0) {
            logs->is_idle = true;
            (void)pthread_cond_broadcast(&logs->changed);
            (void)pthread_cond_wait(&logs->changed, &logs->mutex);
            continue;
        }
        struct waiting log = logs->waiting[logs->first];
        logs->first = (logs->first + 1) % WAITING_MAX;
        logs->count--;
        logs->is_idle = false;
        (void)pthread_mutex_unlock(&logs->mutex);
        put(logs, &log);
        free(log.text);
        (void)pthread_mutex_lock(&logs->mutex);
    }
    logs->is_idle = true;
    (void)pthread_cond_broadcast(&logs->changed);
    (void)pthread_mutex_unlock(&logs->mutex);
    return NULL;
}

int cv_job_logs_start(struct cv_job_logs **ret_logs, struct cv_error *error)
{
    int64_t days = 0;
    struct cv_error reason;
    *ret_logs = NULL;
    CV_TRY(cv_store_job_log_days(&days, error));
    if (days == 0) {
        return 0;
    }
    cv_auto(logs_free) struct cv_job_logs *logs = calloc(1, sizeof(*logs));
    if (!logs) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for logs of jobs");
    }
    CV_TRY(cv_thread_locks(&logs->mutex, &logs->changed, error));
    CV_TRY(cv_cancel_new(&logs->cancel, error));
    if (cv_store_open(NULL, &logs->store, &reason) != 0) {
        cv_log(CV_LOG_DEBUG, "logs of jobs are not written: %s", reason.message);
        return 0;
    }
    cv_store_set_cancel(logs->store, logs->cancel);
    CV_TRY(cv_thread_start(&logs->thread, run, logs, error));
    *ret_logs = cv_take(logs);
    return 0;
}

void cv_job_logs_stop(struct cv_job_logs *logs)
{
    if (!logs) {
        return;
    }
    int64_t end = cv_monotonic_ms() + LAST_WRITES_MS;
    (void)pthread_mutex_lock(&logs->mutex);
    logs->is_stopping = true;
    (void)pthread_cond_broadcast(&logs->changed);
    while (!(logs->is_idle && logs->count == 0) && cv_monotonic_ms() < end) {
        cv_thread_wait(&logs->changed, &logs->mutex, end);
    }
    (void)pthread_mutex_unlock(&logs->mutex);
    cv_cancel_request(logs->cancel, CV_CANCEL_ABORT);
    (void)pthread_join(logs->thread, NULL);
    logs_free(logs);
}

void cv_job_logs_write(struct cv_job_logs *logs, const char *job_id, char *text)
{
    cv_auto_free char *own = text;
    if (!logs) {
        return;
    }
    CV_LOCK(&logs->mutex);
    if (logs->count < WAITING_MAX && !logs->is_stopping) {
        struct waiting *log = &logs->waiting[(logs->first + logs->count++) % WAITING_MAX];
        cv_store_job_log_key(job_id, log->key);
        log->text = cv_take(own);
        (void)pthread_cond_broadcast(&logs->changed);
    }
}
