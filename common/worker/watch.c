#include "common/worker/watch.h"

#include "common/worker/thread.h"

#include <string.h>
#include <sys/eventfd.h>

struct cv_watch {
    struct cv_store *store; /* used by the thread only; NULL: none */
    enum cv_store_access access;
    int (*check)(struct cv_error *error);
    int64_t again_ms;
    struct cv_cancel *cancel; /* cancels the probe under way */
    int news_fd;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects everything below */
    pthread_cond_t changed;
    bool is_stopping;
    uint64_t asked; /* number of the last question */
    struct cv_watch_news news;
};

static void watch_free(struct cv_watch *watch)
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
CV_DEFINE_CLEANUP(struct cv_watch *, watch_free)

/* ---- the thread ------------------------------------------------------------------------------ */

static void wait_until(struct cv_watch *watch, int64_t at)
{
    struct timespec when = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000};
    (void)pthread_cond_timedwait(&watch->changed, &watch->mutex, &when);
}

/* Waits until there is a question, or until it is time for another probe of a store or installation
 * that refuses. False: stop. */
static bool wait_for_reason(struct cv_watch *watch, int64_t again_at)
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

/* Probes once; returns the result without the number of the question. */
static struct cv_watch_news probe(struct cv_watch *watch)
{
    struct cv_watch_news found = {.refused_at = INT64_MIN};
    struct cv_error error;
    if (watch->check && watch->check(&error)) {
        found.is_installation = true;
        (void)snprintf(found.trouble, sizeof(found.trouble), "this installation cannot work: %s",
                       error.message);
    } else if (watch->store && cv_store_probe(watch->store, watch->access, &error)) {
        (void)snprintf(found.trouble, sizeof(found.trouble), "the store cannot be used: %s",
                       error.message);
    }
    if (found.trouble[0]) {
        found.refused_at = cv_monotonic_ms();
    }
    return found;
}

static void tell(struct cv_watch *watch, uint64_t asked, const struct cv_watch_news *found)
{
    int64_t refused_before = watch->news.refused_at;
    watch->news = *found;
    watch->news.answered = asked;
    if (!found->trouble[0]) {
        watch->news.refused_at = refused_before;
    }
    uint64_t one = 1;
    ssize_t written = write(watch->news_fd, &one, sizeof(one));
    (void)written; /* if the pipe is full, it is readable already */
}

/* The time of the next probe. The pause varies by a quarter, so that not all workers probe at the
 * same moment. */
static int64_t next_probe(const struct cv_watch *watch)
{
    int64_t pause = watch->again_ms;
    return cv_monotonic_ms() + pause * 3 / 4 + (int64_t)arc4random_uniform((uint32_t)pause / 2 + 1);
}

static void *run(void *opaque)
{
    struct cv_watch *watch = opaque;
    int64_t again_at = 0;
    (void)pthread_mutex_lock(&watch->mutex);
    while (wait_for_reason(watch, again_at)) {
        uint64_t asked = watch->asked;
        (void)pthread_mutex_unlock(&watch->mutex);
        struct cv_watch_news found = probe(watch);
        again_at = next_probe(watch);
        (void)pthread_mutex_lock(&watch->mutex);
        tell(watch, asked, &found);
    }
    (void)pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

/* ---- from the loop --------------------------------------------------------------------------- */

int cv_watch_start(const struct cv_watch_params *params, struct cv_watch **ret_watch,
                   struct cv_error *error)
{
    struct cv_watch *watch = calloc(1, sizeof(*watch));
    if (!watch || cv_thread_locks(&watch->mutex, &watch->changed, error)) {
        free(watch);
        cv_store_close(params->store);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the watch");
    }
    cv_auto(watch_free) struct cv_watch *own = watch;
    watch->store = params->store;
    watch->access = params->access;
    watch->check = params->check;
    watch->again_ms = params->again_ms;
    watch->asked = 1;
    watch->news.refused_at = INT64_MIN;
    watch->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->news_fd < 0) {
        return cv_fail_errno(error, errno, "eventfd");
    }
    CV_TRY(cv_cancel_new(&watch->cancel, error));
    if (watch->store) {
        cv_store_set_cancel(watch->store, watch->cancel);
    }
    CV_TRY(cv_thread_start(&watch->thread, run, watch, error));
    *ret_watch = cv_take(own);
    return 0;
}

void cv_watch_stop(struct cv_watch *watch)
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

uint64_t cv_watch_ask(struct cv_watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    uint64_t number = ++watch->asked;
    (void)pthread_cond_signal(&watch->changed);
    (void)pthread_mutex_unlock(&watch->mutex);
    return number;
}

struct cv_watch_news cv_watch_look(struct cv_watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    struct cv_watch_news news = watch->news;
    (void)pthread_mutex_unlock(&watch->mutex);
    return news;
}

int cv_watch_fd(const struct cv_watch *watch)
{
    return watch->news_fd;
}

void cv_watch_drain(struct cv_watch *watch)
{
    uint64_t count;
    ssize_t got = read(watch->news_fd, &count, sizeof(count));
    (void)got;
}
