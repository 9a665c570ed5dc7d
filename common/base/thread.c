#include "common/base/base.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>

int cv_thread_locks(pthread_mutex_t *mutex, pthread_cond_t *changed, struct cv_error *error)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0 ||
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(changed, &attributes) != 0 || pthread_mutex_init(mutex, NULL) != 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "cannot make a lock");
    }
    (void)pthread_condattr_destroy(&attributes);
    return 0;
}

void cv_thread_locks_deinit(pthread_mutex_t *mutex, pthread_cond_t *changed)
{
    (void)pthread_cond_destroy(changed);
    (void)pthread_mutex_destroy(mutex);
}

int cv_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *opaque,
                    struct cv_error *error)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error_number = pthread_create(ret_thread, NULL, run, opaque);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error_number ? cv_fail_errno(error, error_number, "cannot start a thread") : 0;
}

void cv_thread_wait(pthread_cond_t *changed, pthread_mutex_t *mutex, int64_t until_ms)
{
    const struct timespec when = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    (void)pthread_cond_timedwait(changed, mutex, &when);
}

/* ---- work in the background ------------------------------------------------------------------ */

static void *run_background(void *opaque)
{
    struct cv_background *background = opaque;
    background->run(background->opaque);
    CV_LOCK(&background->mutex);
    background->has_ended = true;
    (void)pthread_cond_broadcast(&background->changed);
    return NULL;
}

int cv_background_start(struct cv_background *background, void (*run)(void *opaque), void *opaque,
                        struct cv_error *error)
{
    *background = (struct cv_background){.run = run, .opaque = opaque};
    CV_TRY(cv_thread_locks(&background->mutex, &background->changed, error));
    int result = cv_thread_start(&background->thread, run_background, background, error);
    if (result != 0) {
        cv_thread_locks_deinit(&background->mutex, &background->changed);
    }
    background->is_started = result == 0;
    return result;
}

bool cv_background_wait(struct cv_background *background, int64_t until_ms)
{
    if (!background->is_stopping && until_ms == INT64_MAX) {
        (void)pthread_cond_wait(&background->changed, &background->mutex);
    } else if (!background->is_stopping) {
        cv_thread_wait(&background->changed, &background->mutex, until_ms);
    }
    return !background->is_stopping;
}

void cv_background_wake(struct cv_background *background)
{
    (void)pthread_cond_broadcast(&background->changed);
}

void cv_background_stop(struct cv_background *background, struct cv_cancel *cancel,
                        int64_t patience_ms)
{
    if (!background->is_started) {
        return;
    }
    int64_t until = cv_monotonic_ms() + patience_ms;
    (void)pthread_mutex_lock(&background->mutex);
    background->is_stopping = true;
    (void)pthread_cond_broadcast(&background->changed);
    while (!background->has_ended && cv_monotonic_ms() < until) {
        cv_thread_wait(&background->changed, &background->mutex, until);
    }
    bool has_ended = background->has_ended;
    (void)pthread_mutex_unlock(&background->mutex);
    if (!has_ended && cancel) {
        cv_cancel_request(cancel, CV_CANCEL_ABORT);
    }
    (void)pthread_join(background->thread, NULL);
    cv_thread_locks_deinit(&background->mutex, &background->changed);
    background->is_started = false;
}

/* ---- waking a loop that polls -------------------------------------------------------------- */

int cv_wakeup_open(int *ret_fd, struct cv_error *error)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CV_TRY_ERRNO(fd >= 0, error, "eventfd");
    *ret_fd = fd;
    return 0;
}

void cv_wakeup_signal(int fd)
{
    uint64_t one = 1;
    int saved_errno = errno;
    /* Fails only when the counter is full; then the descriptor is readable already. */
    ssize_t written = write(fd, &one, sizeof(one));
    (void)written;
    errno = saved_errno;
}

void cv_wakeup_clear(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof(count));
    (void)got;
}

/* ---- cancellation ---------------------------------------------------------------------------- */

struct cv_cancel {
    atomic_int level;
    int fd;
};

int cv_cancel_new(struct cv_cancel **ret_cancel, struct cv_error *error)
{
    struct cv_cancel *cancel = calloc(1, sizeof(*cancel));
    CV_TRY_MEMORY(cancel, error, "a cancellation");
    int result = cv_wakeup_open(&cancel->fd, error);
    if (result) {
        free(cancel);
        return result;
    }
    *ret_cancel = cancel;
    return 0;
}

void cv_cancel_free(struct cv_cancel *cancel)
{
    if (cancel) {
        close(cancel->fd);
        free(cancel);
    }
}

void cv_cancel_request(struct cv_cancel *cancel, enum cv_cancel_level level)
{
    int current = atomic_load(&cancel->level);
    while (current < (int)level) {
        if (atomic_compare_exchange_weak(&cancel->level, &current, (int)level)) {
            cv_wakeup_signal(cancel->fd);
        }
    }
}

enum cv_cancel_level cv_cancel_level(const struct cv_cancel *cancel)
{
    return cancel ? (enum cv_cancel_level)atomic_load(&cancel->level) : CV_CANCEL_NONE;
}

int cv_cancel_fd(const struct cv_cancel *cancel)
{
    return cancel->fd;
}

bool cv_cancel_wait(const struct cv_cancel *cancel, int ms)
{
    struct pollfd wait = {.fd = cancel->fd, .events = POLLIN};
    return poll(&wait, 1, ms) > 0;
}
