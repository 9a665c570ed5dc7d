/* The client's inside: what the caller's side (s3_client.c) and the thread (s3_loop.c) share. */
#pragma once

#include "common/store/s3_client.h"

#include <pthread.h>

struct cv_s3_client {
    struct cv_s3_config config;
    struct cv_s3_identity *identity;
    struct cv_cancel *cancel;
    CURLM *multi;
    CURLSH *share; /* TLS sessions */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the request that is awaited is done */
    /* under `lock` */
    struct cv_s3_request *submitted; /* oldest first */
    const struct cv_s3_request *awaited;
    bool is_canceling; /* one of the requests is canceled */
    bool stopping;
    bool is_asleep; /* the thread has to be woken up to see any of these */

    /* the thread's own */
    struct cv_s3_request *waiting; /* for a connection or for their time; oldest first */
    struct cv_s3_request *active;
    int active_count;
    CURL *idle[CV_S3_CONNECTIONS];
    int idle_count;
    unsigned seed;
    int64_t requests, retries; /* for the log at the end */
};

/* Puts a request at the end of a list. */
void cv_s3_request_append(struct cv_s3_request **list, struct cv_s3_request *request);

/* The thread's function; `opaque` is the client. Returns NULL when the client is stopping. */
void *cv_s3_loop(void *opaque);
