/* A thread of the supervisor's, and what its loop and the thread wait for each other with. */
#pragma once

#include "common/base/base.h"

#include <pthread.h>

/* A lock and a condition whose times are monotonic, as all of ours are. */
CV_MUST_CHECK int cv_thread_locks(pthread_mutex_t *mutex, pthread_cond_t *changed,
                                  struct cv_error *error);

/* Starts the thread without any signal: they are the loop's. */
CV_MUST_CHECK int cv_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *opaque,
                                  struct cv_error *error);
