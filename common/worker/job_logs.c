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
    struct cv_background background; /* its mutex protects everything below */
    bool store_fails;                /* logged once, until the store works again */
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

static void run(void *opaque)
{
    struct cv_job_logs *logs = opaque;
    (void)pthread_mutex_lock(&logs->background.mutex);
    while (!logs->background.is_stopping || logs->count > 0) {
        if (logs->count == 0) {
            (void)cv_background_wait(&logs->background, INT64_MAX);
            continue;
        }
        struct waiting log = logs->waiting[logs->first];
        logs->first = (logs->first + 1) % WAITING_MAX;
        logs->count--;
        (void)pthread_mutex_unlock(&logs->background.mutex);
        put(logs, &log);
        free(log.text);
        (void)pthread_mutex_lock(&logs->background.mutex);
    }
    (void)pthread_mutex_unlock(&logs->background.mutex);
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
    CV_TRY(cv_cancel_new(&logs->cancel, error));
    if (cv_store_open(NULL, &logs->store, &reason) != 0) {
        cv_log(CV_LOG_DEBUG, "logs of jobs are not written: %s", reason.message);
        return 0;
    }
    cv_store_set_cancel(logs->store, logs->cancel);
    CV_TRY(cv_background_start(&logs->background, run, logs, error));
    *ret_logs = cv_take(logs);
    return 0;
}

void cv_job_logs_stop(struct cv_job_logs *logs)
{
    if (logs) {
        cv_background_stop(&logs->background, logs->cancel, LAST_WRITES_MS);
        logs_free(logs);
    }
}

void cv_job_logs_write(struct cv_job_logs *logs, const char *job_id, char *text)
{
    cv_auto_free char *own = text;
    if (!logs) {
        return;
    }
    CV_LOCK(&logs->background.mutex);
    if (logs->count < WAITING_MAX && !logs->background.is_stopping) {
        struct waiting *log = &logs->waiting[(logs->first + logs->count++) % WAITING_MAX];
        cv_store_job_log_key(job_id, log->key);
        log->text = cv_take(own);
        cv_background_wake(&logs->background);
    }
}
