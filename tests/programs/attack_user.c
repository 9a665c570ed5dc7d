/* What the kernel counts by user: a stage that has all of it leaves none to other workers. attack.c runs the rows. */
#include "common/base/base.h"

#include "tests/programs/attack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

static void *wait_for_release(void *opaque)
{
    pthread_mutex_t *gate = opaque;
    (void)pthread_mutex_lock(gate);
    (void)pthread_mutex_unlock(gate);
    return NULL;
}

static int watch_with_epoll(void)
{
    cv_auto_fd int set = epoll_create1(EPOLL_CLOEXEC);
    return outcome(set);
}

static int queue_signals(void)
{
    enum { MANY = 2000 };
    sigset_t one;
    (void)sigemptyset(&one);
    (void)sigaddset(&one, SIGRTMIN);
    (void)signal(SIGRTMIN, SIG_IGN); /* what waits goes with this */
    if (pthread_sigmask(SIG_BLOCK, &one, NULL) != 0 || signal(SIGRTMIN, SIG_DFL) == SIG_ERR) {
        return errno;
    }
    int result = 0;
    for (int i = 0; i < MANY && result == 0; i++) {
        result = syscall(SYS_tgkill, getpid(), gettid(), SIGRTMIN) == 0 ? 0 : errno;
    }
    (void)signal(SIGRTMIN, SIG_IGN);
    return result;
}

static int many_threads(void)
{
    enum { MANY = 3000 };
    static pthread_t threads[MANY];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t small;
    int count = 0, result = 0;
    (void)pthread_attr_init(&small);
    (void)pthread_attr_setstacksize(&small, 64 << 10);
    (void)pthread_mutex_lock(&gate);
    while (count < MANY && result == 0) {
        result = pthread_create(&threads[count], &small, wait_for_release, &gate);
        count += result == 0;
    }
    (void)pthread_mutex_unlock(&gate);
    for (int i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return result;
}

const struct attack attack_user_rows[] = {
    {"watch with epoll", watch_with_epoll},
    {"queue signals", queue_signals},
    {"threads", many_threads},
    {NULL, NULL},
};
