#include "common/worker/store_watch.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

struct cv_store_watch {
    struct cv_store *store; /* the thread's */
    enum cv_store_access access;
    int64_t again_ms;
    struct cv_cancel *cancel; /* of the probe that is under way */
    int news_fd;
    pthread_t thread;
    pthread_mutex_t mutex; /* everything below */
    pthread_cond_t changed;
    bool is_stopping;
    uint64_t asked; /* the number of the last question */
    struct cv_store_news news;
};

static void watch_free(struct cv_store_watch *watch)
{
    cv_store_close(watch->store);
    cv_cancel_free(watch->cancel);
    if (watch->news_fd >= 0) {
        close(watch->news_fd);
    }
    (void)pthread_cond_destroy(&watch->changed);
    (void)pthread_mutex_destroy(&watch->mutex);
    free(watch);
}
CV_DEFINE_CLEANUP(struct cv_store_watch *, watch_free)

/* ---- the thread ------------------------------------------------------------------------------ */

static void wait_until(struct cv_store_watch *watch, int64_t at)
{
    struct timespec when = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000};
    (void)pthread_cond_timedwait(&watch->changed, &watch->mutex, &when);
}

/* Until there is a question, or it is time to look at a store that refuses once more. False: stop. */
static bool wait_for_reason(struct cv_store_watch *watch, int64_t again_at)
{
    while (!watch->is_stopping && watch->asked == watch->news.answered) {
        if (!watch->news.trouble[0]) {
            (void)pthread_cond_wait(&watch->changed, &watch->mutex);
        } else if (cv_monotonic_ms() < again_at) {
            wait_until(watch, again_at);
        } else {
            break;
        }
    }
    return !watch->is_stopping;
}

static void tell(struct cv_store_watch *watch, uint64_t asked, int result,
                 const struct cv_error *error)
{
    struct cv_store_news *news = &watch->news;
    news->answered = asked;
    if (result) {
        news->refused_at = cv_monotonic_ms();
        (void)snprintf(news->trouble, sizeof(news->trouble), "%s", error->message);
    } else {
        news->trouble[0] = '\0';
    }
    uint64_t one = 1;
    ssize_t written = write(watch->news_fd, &one, sizeof(one));
    (void)written; /* full: it is readable, then */
}

/* The pause varies by a quarter, so that a fleet does not come back at one moment. */
static int64_t next_probe(const struct cv_store_watch *watch)
{
    int64_t pause = watch->again_ms;
    return cv_monotonic_ms() + pause * 3 / 4 + (int64_t)arc4random_uniform((uint32_t)pause / 2 + 1);
}

static void *run(void *opaque)
{
    struct cv_store_watch *watch = opaque;
    int64_t again_at = 0;
    (void)pthread_mutex_lock(&watch->mutex);
    while (wait_for_reason(watch, again_at)) {
        uint64_t asked = watch->asked;
        struct cv_error error;
        (void)pthread_mutex_unlock(&watch->mutex);
        int result = cv_store_probe(watch->store, watch->access, &error);
        again_at = next_probe(watch);
        (void)pthread_mutex_lock(&watch->mutex);
        tell(watch, asked, result, &error);
    }
    (void)pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

/* ---- from the loop --------------------------------------------------------------------------- */

static int init_locks(struct cv_store_watch *watch, struct cv_error *error)
{
    pthread_condattr_t attributes;
    if (pthread_mutex_init(&watch->mutex, NULL) != 0 || pthread_condattr_init(&attributes) != 0 ||
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(&watch->changed, &attributes) != 0) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot make a lock");
    }
    (void)pthread_condattr_destroy(&attributes);
    return 0;
}

/* Signals are the loop's. */
static int start_thread(struct cv_store_watch *watch, struct cv_error *error)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error_number = pthread_create(&watch->thread, NULL, run, watch);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error_number ? cv_fail_errno(error, error_number, "start the store watch's thread") : 0;
}

int cv_store_watch_start(const struct cv_store_watch_params *params,
                         struct cv_store_watch **ret_watch, struct cv_error *error)
{
    struct cv_store_watch *watch = calloc(1, sizeof(*watch));
    if (!watch || init_locks(watch, error)) {
        free(watch);
        cv_store_close(params->store);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to watch the store");
    }
    cv_auto(watch_free) struct cv_store_watch *own = watch;
    watch->store = params->store;
    watch->access = params->access;
    watch->again_ms = params->again_ms;
    watch->asked = 1;
    watch->news.refused_at = INT64_MIN;
    watch->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->news_fd < 0) {
        return cv_fail_errno(error, errno, "eventfd");
    }
    int result = cv_cancel_new(&watch->cancel, error);
    if (result == 0) {
        cv_store_set_cancel(watch->store, watch->cancel);
        result = start_thread(watch, error);
    }
    if (result == 0) {
        *ret_watch = cv_take(own);
    }
    return result;
}

void cv_store_watch_stop(struct cv_store_watch *watch)
{
    if (!watch) {
        return;
    }
    (void)pthread_mutex_lock(&watch->mutex);
    watch->is_stopping = true;
    (void)pthread_cond_signal(&watch->changed);
    (void)pthread_mutex_unlock(&watch->mutex);
    cv_cancel_request(watch->cancel, CV_CANCEL_ABORT);
    (void)pthread_join(watch->thread, NULL);
    watch_free(watch);
}

uint64_t cv_store_watch_ask(struct cv_store_watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    uint64_t number = ++watch->asked;
    (void)pthread_cond_signal(&watch->changed);
    (void)pthread_mutex_unlock(&watch->mutex);
    return number;
}

struct cv_store_news cv_store_watch_look(struct cv_store_watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    struct cv_store_news news = watch->news;
    (void)pthread_mutex_unlock(&watch->mutex);
    return news;
}

int cv_store_watch_fd(const struct cv_store_watch *watch)
{
    return watch->news_fd;
}

void cv_store_watch_drain(struct cv_store_watch *watch)
{
    uint64_t count;
    ssize_t got = read(watch->news_fd, &count, sizeof(count));
    (void)got;
}
