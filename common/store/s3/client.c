#include "common/store/s3/client.h"

#include "common/store/s3/attempt.h"

#include <signal.h>
#include <string.h>
#include <sys/random.h>

enum {
    PAUSE_MS = 50,       /* the first pause is up to three times this */
    PAUSE_SLOW_MS = 400, /* pause for an overloaded server */
    PAUSE_MAX_MS = 10 * 1000,
    IDLE_POLL_MS = 60 * 1000 /* a wakeup ends the wait at once */
};

enum { CANCEL_POLL_MS = 100 }; /* how soon a wait notices an abort */

struct cv_s3_client {
    struct cv_s3_config config;
    struct cv_s3_identity *identity;
    struct cv_cancel *cancel;
    int64_t deadline_ms; /* of reads */
    CURLM *multi;
    CURLSH *share; /* TLS sessions */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals that the awaited request is done */
    /* Protected by `lock`. */
    struct cv_s3_request *submitted; /* oldest first */
    const struct cv_s3_request *awaited;
    bool is_canceling; /* one of the requests is to be canceled */
    bool stopping;
    bool is_asleep; /* the thread must be woken to notice any of these */

    /* Used by the thread only. */
    struct cv_s3_request
        *waiting; /* requests that wait for a connection or a pause; oldest first */
    struct cv_s3_request *active;
    int active_count;
    CURL *idle[CV_S3_CONNECTIONS];
    int idle_count;
    unsigned seed;
    int64_t requests, retries; /* for the log at the end */
};

static void append(struct cv_s3_request **list, struct cv_s3_request *request);
static void *run_loop(void *opaque);

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

void cv_s3_client_set_deadline(struct cv_s3_client *client, int64_t deadline_ms)
{
    client->deadline_ms = deadline_ms;
}

/* ---- from the caller's side ------------------------------------------------------------------ */

int cv_s3_start(struct cv_s3_client *client, struct cv_s3_request *request, struct cv_error *error)
{
    CV_TRY_MEMORY(!request->query.failed && !request->headers.failed, error, "a request");
    if (!client->has_thread) {
        /* No signal must interrupt a transfer, and a broken pipe is an error here. */
        CV_TRY(cv_thread_start(&client->thread, run_loop, client, error));
        client->has_thread = true;
    }
    request->done = false;
    request->canceled = false;
    request->renewed = false;
    request->attempts = 0;
    request->pause_ms = 0;
    request->not_before_ms = 0;
    pthread_mutex_lock(&client->lock);
    append(&client->submitted, request);
    bool is_asleep = client->is_asleep;
    client->is_asleep = false;
    pthread_mutex_unlock(&client->lock);
    if (is_asleep) {
        (void)curl_multi_wakeup(client->multi);
    }
    return 0;
}

/* Waits until the request is done, `cancel` (may be NULL) aborts or the deadline is reached. */
static bool wait_for(struct cv_s3_client *client, const struct cv_s3_request *request,
                     const struct cv_cancel *cancel, int64_t deadline_ms)
{
    CV_LOCK(&client->lock);
    client->awaited = request;
    int64_t now = cv_monotonic_ms();
    while (!request->done && cv_cancel_level(cancel) < CV_CANCEL_ABORT && now < deadline_ms) {
        int64_t wake = now + (cancel ? CANCEL_POLL_MS : IDLE_POLL_MS);
        cv_thread_wait(&client->changed, &client->lock, wake < deadline_ms ? wake : deadline_ms);
        now = cv_monotonic_ms();
    }
    return request->done;
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
        (void)wait_for(client, request, NULL, INT64_MAX);
    }
}

int cv_s3_finish(struct cv_s3_client *client, struct cv_s3_request *request, struct cv_error *error)
{
    bool is_read = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    int64_t deadline_ms = is_read ? client->deadline_ms : INT64_MAX;
    if (!wait_for(client, request, client->cancel, deadline_ms)) {
        cv_s3_cancel(client, request);
    }
    if (request->result == 0) {
        return 0;
    }
    *error = request->error;
    if (error->type == CV_ERROR_CANCELED && cv_cancel_level(client->cancel) < CV_CANCEL_ABORT &&
        cv_monotonic_ms() >= deadline_ms) {
        request->result = cv_fail(error, CV_ERROR_TIMEOUT, "it is not answered in time");
    }
    return cv_fail_context(error, request->result, "%s s3://%s%s%s", request->method,
                           client->config.bucket, request->key ? "/" : "",
                           request->key ? request->key : "");
}

int cv_s3_perform(struct cv_s3_client *client, struct cv_s3_request *request,
                  struct cv_error *error)
{
    CV_TRY(cv_s3_start(client, request, error));
    return cv_s3_finish(client, request, error);
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
    CV_TRY_MEMORY(client, error, "a store");
    if (cv_thread_locks(&client->lock, &client->changed, error)) {
        free(client);
        return -1;
    }
    client->config = *config;
    client->deadline_ms = INT64_MAX;
    *config = (struct cv_s3_config){0};
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
    cv_thread_locks_deinit(&client->lock, &client->changed);
    free(client);
}

/* ---- lists of requests ----------------------------------------------------------------------- */

static void append(struct cv_s3_request **list, struct cv_s3_request *request)
{
    request->next = NULL;
    while (*list) {
        list = &(*list)->next;
    }
    *list = request;
}

static void remove_request(struct cv_s3_request **list, const struct cv_s3_request *request)
{
    while (*list && *list != request) {
        list = &(*list)->next;
    }
    if (*list) {
        *list = request->next;
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Hands the request back to its owner. */
static void complete(struct cv_s3_client *client, struct cv_s3_request *request, int result,
                     const struct cv_error *error)
{
    pthread_mutex_lock(&client->lock);
    request->result = result;
    if (result) {
        request->error = *error;
    }
    request->done = true;
    bool is_awaited = client->awaited == request;
    pthread_mutex_unlock(&client->lock);
    if (is_awaited) {
        pthread_cond_signal(&client->changed);
    }
}

static void release_easy(struct cv_s3_client *client, struct cv_s3_request *request)
{
    struct cv_s3_attempt *attempt = request->attempt;
    request->attempt = NULL;
    (void)curl_multi_remove_handle(client->multi, attempt->easy);
    cv_s3_attempt_end(attempt);
    client->idle[client->idle_count++] = attempt->easy;
    client->active_count--;
    remove_request(&client->active, request);
    free(attempt);
}

/* Returns an unused handle or a new one; there are never more than connections. */
static CURL *find_free_handle(struct cv_s3_client *client)
{
    return client->idle_count > 0 ? client->idle[--client->idle_count] : curl_easy_init();
}

/* Decorrelated jitter: each pause is random between the base and three times the last pause, so
 * that clients that failed at the same time do not all return at the same time. */
static int64_t next_pause(struct cv_s3_client *client, const struct cv_s3_request *request,
                          bool slowly)
{
    int64_t base = slowly ? PAUSE_SLOW_MS : PAUSE_MS;
    int64_t last = request->pause_ms > base ? request->pause_ms : base;
    int64_t pause = base + (int64_t)rand_r(&client->seed) % (last * 3 - base + 1);
    pause = pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS;
    return pause > request->answer.retry_after_ms ? pause : request->answer.retry_after_ms;
}

/* Queues the request for another attempt. */
static void wait_for_next(struct cv_s3_client *client, struct cv_s3_request *request, bool slowly,
                          const struct cv_error *reason)
{
    request->pause_ms = next_pause(client, request, slowly);
    request->not_before_ms = cv_monotonic_ms() + request->pause_ms;
    client->retries++;
    cv_log(CV_LOG_DEBUG, "S3: %s %s again in %lld ms: %s", request->method,
           request->key ? request->key : "", (long long)request->pause_ms, reason->message);
    append(&client->waiting, request);
}

static bool may_try_again(const struct cv_s3_client *client, const struct cv_s3_request *request)
{
    return request->attempts < client->config.attempts &&
           cv_monotonic_ms() - request->begun_ms <
               cv_s3_attempt_patience_ms(request, &client->config);
}

static void begin(struct cv_s3_client *client, struct cv_s3_request *request)
{
    struct cv_error error;
    struct cv_s3_attempt *attempt = malloc(sizeof(*attempt));
    CURL *easy = find_free_handle(client);
    if (!attempt || !easy) {
        free(attempt);
        if (easy) {
            client->idle[client->idle_count++] = easy;
        }
        complete(client, request,
                 cv_fail(&error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request"), &error);
        return;
    }
    if (request->attempts == 0) {
        request->begun_ms = cv_monotonic_ms();
    }
    int result = cv_s3_attempt_begin(attempt, client, request, easy, &error);
    if (result == 0 && (curl_easy_setopt(easy, CURLOPT_SHARE, client->share) != CURLE_OK ||
                        curl_multi_add_handle(client->multi, easy) != CURLM_OK)) {
        cv_s3_attempt_end(attempt);
        result = cv_fail(&error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request");
    }
    request->attempts++;
    if (result) {
        client->idle[client->idle_count++] = easy;
        free(attempt);
        /* The service for credentials may be back soon. */
        if (error.verdict == CV_VERDICT_RETRY && may_try_again(client, request)) {
            wait_for_next(client, request, false, &error);
        } else {
            complete(client, request, result, &error);
        }
        return;
    }
    request->attempt = attempt;
    client->requests++;
    client->active_count++;
    append(&client->active, request);
}

static void settle(struct cv_s3_client *client, struct cv_s3_attempt *attempt, CURLcode code)
{
    struct cv_s3_request *request = attempt->request;
    struct cv_error error;
    int result = -1;
    enum cv_s3_remedy remedy = cv_s3_attempt_judge(attempt, code, &result, &error);
    release_easy(client, request);
    if (remedy == CV_S3_RENEW && !request->renewed && cv_s3_identity_expire(client->identity)) {
        request->renewed = true;
        request->not_before_ms = 0;
        append(&client->waiting, request);
        return;
    }
    bool again = remedy == CV_S3_RETRY || remedy == CV_S3_RETRY_SLOWLY;
    if (again && may_try_again(client, request)) {
        wait_for_next(client, request, remedy == CV_S3_RETRY_SLOWLY, &error);
        return;
    }
    if (again && request->attempts > 1) {
        char suffix[48];
        size_t length = strlen(error.message);
        (void)snprintf(suffix, sizeof(suffix), " (%d attempts)", request->attempts);
        (void)snprintf(error.message + length, sizeof(error.message) - length, "%s", suffix);
    }
    complete(client, request, result, &error);
}

static void drop(struct cv_s3_client *client, struct cv_s3_request *request)
{
    struct cv_error error;
    if (request->attempt) {
        release_easy(client, request);
    } else {
        remove_request(&client->waiting, request);
    }
    complete(client, request, cv_fail(&error, CV_ERROR_CANCELED, "the request was stopped"),
             &error);
}

static void drop_canceled(struct cv_s3_client *client, bool all)
{
    struct cv_s3_request *const lists[] = {client->waiting, client->active};
    for (size_t i = 0; i < CV_COUNT(lists); i++) {
        for (struct cv_s3_request *request = lists[i], *next; request; request = next) {
            next = request->next;
            pthread_mutex_lock(&client->lock);
            bool canceled = request->canceled || all;
            pthread_mutex_unlock(&client->lock);
            if (canceled) {
                drop(client, request);
            }
        }
    }
}

/* Accepts new requests and removes canceled ones. True until the client is to end. */
static bool accept_requests(struct cv_s3_client *client)
{
    pthread_mutex_lock(&client->lock);
    struct cv_s3_request *submitted = client->submitted;
    client->submitted = NULL;
    bool stopping = client->stopping;
    bool is_canceling = client->is_canceling;
    client->is_canceling = false;
    pthread_mutex_unlock(&client->lock);
    for (struct cv_s3_request **end = &client->waiting;; end = &(*end)->next) {
        if (!*end) {
            *end = submitted;
            break;
        }
    }
    if (is_canceling || stopping) {
        drop_canceled(client, stopping);
    }
    return !stopping;
}

/* Begins attempts that are due; returns the time until the next is due, ms. */
static int64_t begin_due(struct cv_s3_client *client)
{
    int64_t now = cv_monotonic_ms();
    for (struct cv_s3_request *request = client->waiting, *next; request; request = next) {
        next = request->next;
        if (request->not_before_ms <= now && client->active_count < CV_S3_CONNECTIONS) {
            remove_request(&client->waiting, request);
            begin(client, request);
        }
    }
    /* Calculated last, because attempts that could not begin wait again. */
    int64_t wait = IDLE_POLL_MS;
    for (const struct cv_s3_request *request = client->waiting; request; request = request->next) {
        int64_t left = request->not_before_ms - now;
        wait = left > 0 && left < wait ? left : wait;
    }
    return wait;
}

/* Sleeps until a transfer continues, `wait_ms` have passed or a caller needs something. A new
 * request does not wake it while all connections are in use. */
static void sleep_for(struct cv_s3_client *client, int64_t wait_ms)
{
    pthread_mutex_lock(&client->lock);
    bool is_full = client->active_count == CV_S3_CONNECTIONS;
    bool has_orders = client->is_canceling || client->stopping || (client->submitted && !is_full);
    client->is_asleep = !has_orders && !is_full;
    pthread_mutex_unlock(&client->lock);
    if (!has_orders) {
        (void)curl_multi_poll(client->multi, NULL, 0, (int)wait_ms, NULL);
    }
}

static void *run_loop(void *opaque)
{
    struct cv_s3_client *client = opaque;
    while (accept_requests(client)) {
        int64_t wait = begin_due(client);
        int running = 0;
        (void)curl_multi_perform(client->multi, &running);
        int left = 0;
        bool settled = false;
        for (CURLMsg *message; (message = curl_multi_info_read(client->multi, &left));) {
            struct cv_s3_attempt *attempt = NULL;
            CURLcode code = message->data.result;
            if (message->msg == CURLMSG_DONE &&
                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &attempt) == CURLE_OK) {
                settle(client, attempt, code);
                settled = true;
            }
        }
        if (!settled) { /* otherwise a connection may be free for a waiting request */
            sleep_for(client, wait);
        }
    }
    return NULL;
}
