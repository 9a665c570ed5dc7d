#include "common/store/s3_loop.h"

#include <signal.h>
#include <string.h>
#include <sys/random.h>

enum { CANCEL_POLL_MS = 100 }; /* how soon a wait sees an abort */
const struct cv_s3_config *cv_s3_client_config(const struct cv_s3_client *client)
{
    return &client->config;
}

struct cv_s3_identity *cv_s3_client_identity(const struct cv_s3_client *client)
{
    return client->identity;
}

void cv_s3_client_set_cancel(struct cv_s3_client *client, struct cv_cancel *cancel)
{
    client->cancel = cancel;
}

/* ---- from the caller's side ------------------------------------------------------------------ */

/* Signals are the main thread's: none may end a transfer, and a broken pipe is an error here, not a
 * signal. */
static int start_thread(struct cv_s3_client *client, struct cv_error *error)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error_number = pthread_create(&client->thread, NULL, cv_s3_loop, client);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error_number) {
        return cv_fail_errno(error, error_number, "start the object store's thread");
    }
    client->has_thread = true;
    return 0;
}

int cv_s3_start(struct cv_s3_client *client, struct cv_s3_request *request, struct cv_error *error)
{
    if (request->query.failed || request->headers.failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request");
    }
    if (!client->has_thread) {
        int result = start_thread(client, error);
        if (result) {
            return result;
        }
    }
    request->done = false;
    request->canceled = false;
    request->renewed = false;
    request->attempts = 0;
    request->pause_ms = 0;
    request->not_before_ms = 0;
    pthread_mutex_lock(&client->lock);
    cv_s3_request_append(&client->submitted, request);
    bool is_asleep = client->is_asleep;
    client->is_asleep = false;
    pthread_mutex_unlock(&client->lock);
    if (is_asleep) {
        (void)curl_multi_wakeup(client->multi);
    }
    return 0;
}

bool cv_s3_is_done(struct cv_s3_client *client, const struct cv_s3_request *request)
{
    pthread_mutex_lock(&client->lock);
    bool done = request->done;
    pthread_mutex_unlock(&client->lock);
    return done;
}

/* Until it is done or `cancel` (may be NULL) asks to abort. */
static bool wait_for(struct cv_s3_client *client, const struct cv_s3_request *request,
                     const struct cv_cancel *cancel)
{
    pthread_mutex_lock(&client->lock);
    client->awaited = request;
    while (!request->done && cv_cancel_level(cancel) < CV_CANCEL_ABORT) {
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += CANCEL_POLL_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        (void)(cancel ? pthread_cond_timedwait(&client->changed, &client->lock, &until)
                      : pthread_cond_wait(&client->changed, &client->lock));
    }
    bool done = request->done;
    pthread_mutex_unlock(&client->lock);
    return done;
}

void cv_s3_cancel(struct cv_s3_client *client, struct cv_s3_request *request)
{
    pthread_mutex_lock(&client->lock);
    request->canceled = true;
    client->is_canceling = true;
    bool done = request->done;
    pthread_mutex_unlock(&client->lock);
    if (!done) {
        (void)curl_multi_wakeup(client->multi);
        (void)wait_for(client, request, NULL);
    }
}

int cv_s3_finish(struct cv_s3_client *client, struct cv_s3_request *request, struct cv_error *error)
{
    if (!wait_for(client, request, client->cancel)) {
        cv_s3_cancel(client, request);
    }
    if (request->result == 0) {
        return 0;
    }
    *error = request->error;
    return cv_fail_context(error, request->result, "%s %s", request->method,
                           request->key ? request->key : client->config.bucket);
}

int cv_s3_perform(struct cv_s3_client *client, struct cv_s3_request *request,
                  struct cv_error *error)
{
    int result = cv_s3_start(client, request, error);
    return result ? result : cv_s3_finish(client, request, error);
}

/* ---- requests -------------------------------------------------------------------------------- */

int cv_s3_request_init(struct cv_s3_request *request, const struct cv_s3_client *client,
                       const char *method, const char *key, struct cv_error *error)
{
    *request =
        (struct cv_s3_request){.method = method, .body_fd = -1, .text_limit = CV_S3_ANSWER_MAX};
    cv_s3_answer_init(&request->answer);
    memcpy(request->payload_hash, CV_S3_EMPTY_HASH, sizeof(CV_S3_EMPTY_HASH));
    if (!key) {
        return 0;
    }
    if (strlen(client->config.prefix) + strlen(key) > CV_STORE_KEY_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_KEY,
                       "object key is longer than %d bytes with the store's prefix",
                       CV_STORE_KEY_MAX);
    }
    return cv_format(&request->key, error, "%s%s", client->config.prefix, key);
}

void cv_s3_request_deinit(struct cv_s3_request *request)
{
    free(request->key);
    cv_s3_pairs_deinit(&request->query);
    cv_s3_pairs_deinit(&request->headers);
    cv_s3_answer_deinit(&request->answer);
    cv_buffer_deinit(&request->text);
    *request = (struct cv_s3_request){.body_fd = -1};
}

/* ---- opening --------------------------------------------------------------------------------- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state = CURLE_FAILED_INIT;

static void init_curl(void)
{
    curl_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int open_curl(struct cv_s3_client *client, struct cv_error *error)
{
    (void)pthread_once(&curl_once, init_curl);
    client->multi = curl_state == CURLE_OK ? curl_multi_init() : NULL;
    client->share = curl_state == CURLE_OK ? curl_share_init() : NULL;
    if (!client->multi || !client->share ||
        curl_share_setopt(client->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) !=
            CURLSHE_OK ||
        curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)CV_S3_CONNECTIONS) !=
            CURLM_OK) {
        return cv_fail(error, CV_ERROR_INTERNAL, "libcurl cannot be set up");
    }
    return 0;
}

int cv_s3_client_open(struct cv_s3_config *config, struct cv_s3_client **ret_client,
                      struct cv_error *error)
{
    struct cv_s3_client *client = calloc(1, sizeof(*client));
    if (!client) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a store");
    }
    client->config = *config;
    *config = (struct cv_s3_config){0};
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&client->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&client->lock, NULL);
    if (getrandom(&client->seed, sizeof(client->seed), 0) != (ssize_t)sizeof(client->seed)) {
        client->seed = (unsigned)cv_wall_ms();
    }
    int result = open_curl(client, error);
    result = result ? result : cv_s3_identity_open(&client->config, &client->identity, error);
    if (result) {
        cv_s3_client_close(client);
        return result;
    }
    *ret_client = client;
    return 0;
}

void cv_s3_client_close(struct cv_s3_client *client)
{
    if (!client) {
        return;
    }
    if (client->has_thread) {
        pthread_mutex_lock(&client->lock);
        client->stopping = true;
        pthread_mutex_unlock(&client->lock);
        (void)curl_multi_wakeup(client->multi);
        (void)pthread_join(client->thread, NULL);
        cv_log(CV_LOG_DEBUG, "S3: %lld requests, %lld of them retries", (long long)client->requests,
               (long long)client->retries);
    }
    for (int i = 0; i < client->idle_count; i++) {
        curl_easy_cleanup(client->idle[i]);
    }
    if (client->multi) {
        (void)curl_multi_cleanup(client->multi);
    }
    if (client->share) {
        (void)curl_share_cleanup(client->share);
    }
    cv_s3_identity_close(client->identity);
    cv_s3_config_deinit(&client->config);
    (void)pthread_cond_destroy(&client->changed);
    (void)pthread_mutex_destroy(&client->lock);
    free(client);
}
