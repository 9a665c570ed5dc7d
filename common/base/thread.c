#include "common/base/base.h"

#include <signal.h>
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

/* ---- waking a loop that polls -------------------------------------------------------------- */

int cv_wakeup_open(int *ret_fd, struct cv_error *error)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        return cv_fail_errno(error, errno, "eventfd");
    }
    *ret_fd = fd;
    return 0;
}

void cv_wakeup_signal(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof(one));
    (void)
        written; /* fails only when the counter is full; then the descriptor is readable already */
}

void cv_wakeup_clear(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof(count));
    (void)got;
}
