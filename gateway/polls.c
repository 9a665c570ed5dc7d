#include "gateway/polls.h"

#include "common/queue/queue.h"

#include <string.h>

int polls_init(struct polls *polls, int of_a_caller, struct cv_error *error)
{
    *polls = (struct polls){.of_a_caller = of_a_caller};
    int failure = pthread_mutex_init(&polls->mutex, NULL);
    return failure ? cv_fail_errno(error, failure, "cannot make a lock") : 0;
}

void polls_deinit(struct polls *polls)
{
    (void)pthread_mutex_destroy(&polls->mutex);
}

static bool is_over(const struct exchange *exchange)
{
    json_int_t wait_s = json_integer_value(json_object_get(exchange->values, "wait"));
    return cv_monotonic_ms() - exchange->began_ms >= wait_s * 1000;
}

/* Whether the answer, a job or a clip, may still change; writes the job's id. */
static bool is_under_way(const struct exchange *exchange, char id[POLL_ID_SIZE])
{
    cv_auto(json_decref) json_t *body = answer_json(&exchange->answer);
    const char *state = json_string_value(json_object_get(body, "state"));
    const char *job = json_string_value(json_object_get(body, "job_id"));
    job = job ? job : json_string_value(json_object_get(body, "id"));
    (void)snprintf(id, POLL_ID_SIZE, "%s", job ? job : "");
    return state && id[0] && !cv_queue_is_over(state);
}

/* Counts an exchange among its caller's; false: these are too many. */
static bool enter(struct polls *polls, struct exchange *exchange)
{
    int count = 0;
    exchange->caller = exchange_caller(exchange);
    for (const struct exchange *other = polls->all; other; other = other->next_poll) {
        count += other->caller == exchange->caller;
    }
    if (polls->of_a_caller > 0 && count >= polls->of_a_caller) {
        return false;
    }
    exchange->next_poll = polls->all;
    polls->all = exchange;
    return true;
}

bool polls_park(struct polls *polls, struct exchange *exchange)
{
    char job[POLL_ID_SIZE];
    if (is_over(exchange) || !is_under_way(exchange, job)) {
        return false;
    }
    CV_LOCK(&polls->mutex);
    if (polls->is_ending) {
        return false;
    }
    if (!exchange->waits_for[0] && !enter(polls, exchange)) {
        exchange_refuse(
            exchange, REFUSE_TOO_MANY,
            "you have as many requests waiting for a change as one caller may: wait for "
            "one of them, or ask for a stream of events");
        return false;
    }
    (void)memcpy(exchange->waits_for, job, sizeof(job));
    answer_deinit(&exchange->answer);
    exchange->next = polls->parked;
    polls->parked = exchange;
    return true;
}

bool polls_jobs(struct polls *polls, struct cv_buffer *array)
{
    CV_LOCK(&polls->mutex);
    cv_buffer_text(array, "{");
    for (const struct exchange *exchange = polls->parked; exchange; exchange = exchange->next) {
        cv_db_array_append(array, exchange->waits_for);
    }
    cv_buffer_text(array, "}");
    return polls->parked && !array->failed;
}

static bool is_among(const struct cv_db_result *rows, const char *id)
{
    for (int row = 0; rows && row < cv_db_rows(rows); row++) {
        if (strcmp(cv_db_text(rows, row, "id"), id) == 0) {
            return true;
        }
    }
    return false;
}

struct exchange *polls_detach(struct polls *polls, const struct cv_db_result *ended)
{
    struct exchange *taken = NULL;
    CV_LOCK(&polls->mutex);
    for (struct exchange **here = &polls->parked, *exchange; (exchange = *here);) {
        if (!is_over(exchange) && !is_among(ended, exchange->waits_for)) {
            here = &exchange->next;
            continue;
        }
        *here = exchange->next;
        exchange->next = taken;
        taken = exchange;
    }
    return taken;
}

struct exchange *polls_end(struct polls *polls)
{
    CV_LOCK(&polls->mutex);
    struct exchange *taken = polls->parked;
    polls->parked = NULL;
    polls->is_ending = true;
    return taken;
}

void polls_forget(struct polls *polls, struct exchange *exchange)
{
    if (!exchange->waits_for[0]) {
        return;
    }
    CV_LOCK(&polls->mutex);
    struct exchange **here = &polls->all;
    while (*here && *here != exchange) {
        here = &(*here)->next_poll;
    }
    if (*here) {
        *here = exchange->next_poll;
    }
}
