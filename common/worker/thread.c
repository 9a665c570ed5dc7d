#include "common/worker/thread.h"

#include <signal.h>

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
