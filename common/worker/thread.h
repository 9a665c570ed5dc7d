/* Starts threads of the supervisor, with a lock and a condition. */
#pragma once

#include "common/base/base.h"

#include <pthread.h>

/* Initialises a lock and a condition that waits by the monotonic clock. */
CV_MUST_CHECK int cv_thread_locks(pthread_mutex_t *mutex, pthread_cond_t *changed,
                                  struct cv_error *error);

/* Starts the thread with all signals blocked: the loop's thread handles them. */
CV_MUST_CHECK int cv_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *opaque,
                                  struct cv_error *error);
