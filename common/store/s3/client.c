#include "common/store/s3_loop.h"

#include "common/store/s3_attempt.h"

#include <string.h>

enum {
    PAUSE_MS = 50,       /* the first pause is up to three times this */
    PAUSE_SLOW_MS = 400, /* of an overloaded server */
    PAUSE_MAX_MS = 10 * 1000,
    IDLE_POLL_MS = 60 * 1000 /* a wakeup ends it at once */
};
/* ---- lists of requests ----------------------------------------------------------------------- */

void cv_s3_request_append(struct cv_s3_request **list, struct cv_s3_request *request)
{
    request->next = NULL;
    while (*list) {
        list = &(*list)->next;
    }
    *list = request;
}

static void take_out(struct cv_s3_request **list, const struct cv_s3_request *request)
{
    while (*list && *list != request) {
        list = &(*list)->next;
    }
    if (*list) {
        *list = request->next;
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* From here on the request is its owner's again. */
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
    take_out(&client->active, request);
    free(attempt);
}

/* A kept handle or a new one; there are never more than connections. */
static CURL *take_easy(struct cv_s3_client *client)
{
    return client->idle_count > 0 ? client->idle[--client->idle_count] : curl_easy_init();
}

/* Decorrelated jitter: each pause lies between the base and three times the one before, so that
 * clients that failed together do not come back together. */
static int64_t next_pause(struct cv_s3_client *client, const struct cv_s3_request *request,
                          bool slowly)
{
    int64_t base = slowly ? PAUSE_SLOW_MS : PAUSE_MS;
    int64_t last = request->pause_ms > base ? request->pause_ms : base;
    int64_t pause = base + (int64_t)rand_r(&client->seed) % (last * 3 - base + 1);
    pause = pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS;
    return pause > request->answer.retry_after_ms ? pause : request->answer.retry_after_ms;
}

/* Puts it back for another attempt. */
static void wait_for_next(struct cv_s3_client *client, struct cv_s3_request *request, bool slowly,
                          const struct cv_error *reason)
{
    request->pause_ms = next_pause(client, request, slowly);
    request->not_before_ms = cv_monotonic_ms() + request->pause_ms;
    client->retries++;
    cv_log(CV_LOG_DEBUG, "S3: %s %s again in %lld ms: %s", request->method,
           request->key ? request->key : "", (long long)request->pause_ms, reason->message);
    cv_s3_request_append(&client->waiting, request);
}

static void begin(struct cv_s3_client *client, struct cv_s3_request *request)
{
    struct cv_error error;
    struct cv_s3_attempt *attempt = malloc(sizeof(*attempt));
    CURL *easy = take_easy(client);
    if (!attempt || !easy) {
        free(attempt);
        if (easy) {
            client->idle[client->idle_count++] = easy;
        }
        complete(client, request,
                 cv_fail(&error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request"), &error);
        return;
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
        /* Whoever hands out credentials may be back in a moment. */
        if (error.verdict == CV_VERDICT_RETRY && request->attempts < client->config.attempts) {
            wait_for_next(client, request, false, &error);
        } else {
            complete(client, request, result, &error);
        }
        return;
    }
    request->attempt = attempt;
    client->requests++;
    client->active_count++;
    cv_s3_request_append(&client->active, request);
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
        cv_s3_request_append(&client->waiting, request);
        return;
    }
    bool again = remedy == CV_S3_RETRY || remedy == CV_S3_RETRY_SLOWLY;
    if (again && request->attempts < client->config.attempts) {
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
        take_out(&client->waiting, request);
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

/* Takes new requests in and canceled ones out. True while there is reason to go on. */
static bool take_orders(struct cv_s3_client *client)
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

/* Begins what is due; returns how long nothing else will be, ms. */
static int64_t begin_due(struct cv_s3_client *client)
{
    int64_t now = cv_monotonic_ms();
    for (struct cv_s3_request *request = client->waiting, *next; request; request = next) {
        next = request->next;
        if (request->not_before_ms <= now && client->active_count < CV_S3_CONNECTIONS) {
            take_out(&client->waiting, request);
            begin(client, request);
        }
    }
    /* Only now: what could not begin waits again. */
    int64_t wait = IDLE_POLL_MS;
    for (const struct cv_s3_request *request = client->waiting; request; request = request->next) {
        int64_t left = request->not_before_ms - now;
        wait = left > 0 && left < wait ? left : wait;
    }
    return wait;
}

/* Sleeps until a transfer goes on, `wait_ms` are over or the caller's side has something to say. A
 * new request is nothing new while all connections are in use. */
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

void *cv_s3_loop(void *opaque)
{
    struct cv_s3_client *client = opaque;
    while (take_orders(client)) {
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
        if (!settled) { /* else there may be a connection for one that waits */
            sleep_for(client, wait);
        }
    }
    return NULL;
}
